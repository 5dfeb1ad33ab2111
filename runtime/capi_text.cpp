// The C API: tokens one by one.
#include "weft/text.h"

#include <algorithm>

#include "capi.h"

using namespace weft;
using namespace weft::capi;

weft_status weft_token_bytes(const weft_model* model, uint32_t id, char* bytes, size_t capacity, size_t* count,
                             int* control, weft_error* error) {
  return guard(error, [&] {
    require(model && (bytes || capacity == 0) && count && control, "model, bytes, count or control", "it is NULL");
    require(id < model->model.config.vocab, "id", "it is not below vocab_size");
    const bool named = model->tokenizer.is_control(id);
    const std::string text = named ? model->tokenizer.spelling(id) : model->tokenizer.bytes(id);
    std::copy_n(text.data(), std::min(capacity, text.size()), bytes);
    *count = text.size();
    *control = named;
  });
}
