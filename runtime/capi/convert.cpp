// The C API of libweft_convert.
#include "weft/convert.h"

#include <algorithm>

#include "capi/support.h"
#include "convert/convert.h"

using namespace weft;
using namespace weft::capi;
static JsonValue report_json(const std::vector<ConvertedTensor>& tensors) {
  std::vector<Retyped> entries;
  JsonValue list = JsonValue::array();
  uint64_t bytes = 0;
  for (const ConvertedTensor& tensor : tensors) {
    entries.push_back({tensor.from, name(tensor.to), tensor.rounding});
    list.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"from_type", tensor.from},
                    {"to_type", name(tensor.to)},
                    {"bytes", tensor.bytes},
                    {"exact", tensor.rounding.largest_error == 0},
                    {"largest_error", tensor.rounding.largest_error},
                    {"relative_error", tensor.rounding.relative()}});
    bytes += tensor.bytes;
  }
  return {{"tensor_bytes", bytes}, {"types", types_json(entries, "from_type", "to_type")}, {"tensors", list}};
}

weft_convert_options weft_convert_options_default(void) { return {WEFT_TYPE_Q8, WEFT_TYPE_FILE, 0, nullptr, nullptr}; }

weft_status weft_convert(const char* in, const char* out, const weft_convert_options* options, char** report_text,
                         weft_error* error) {
  return guard(error, [&] {
    require(in && out, "in or out", "it is NULL");
    const weft_convert_options chosen = options ? *options : weft_convert_options_default();
    const weft_type vocab = chosen.vocab_type == WEFT_TYPE_FILE ? chosen.type : chosen.vocab_type;
    const ConvertOptions wanted = {format_of(chosen.type, "type"), format_of(vocab, "vocab_type"), chosen.replace != 0};
    const auto tensors = convert(in, out, wanted, [&](float done) {
      if (chosen.progress && chosen.progress(chosen.user, std::clamp(done, 0.0f, 1.0f)) != 0)
        throw Error(Code::cancelled, "converting was given up", in);
    });
    if (report_text) *report_text = copy_string(report_json(tensors).dump());
  });
}
