// The C API: keep-lists.
#include <span>

#include "capi/handles.h"
#include "keep/keep_list.h"

using namespace weft;
using namespace weft::capi;

weft_status weft_vocab_keep(const weft_model* model, const char* list, uint32_t* ids, size_t capacity, size_t* count,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && (ids || capacity == 0) && count, "model, ids or count", "it is NULL");
    const Tokenizer& tokenizer = model->tokenizer;
    copy_ids(list ? make_keep_list(list, tokenizer).ids : always_kept(tokenizer), ids, capacity, count);
  });
}

weft_status weft_vocab_save(const weft_model* model, const uint32_t* ids, size_t count, const char* path,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && (ids || count == 0) && path, "model, ids or path", "it is NULL");
    write_keep_list(path, std::span(ids, count), model->tokenizer);
  });
}
