// The C API of libweft_convert.
#include "weft/convert.h"

#include <algorithm>
#include <optional>

#include "capi/support.h"
#include "convert/convert.h"

using namespace weft;
using namespace weft::capi;

WEFT_STRUCT(weft_convert_options, user);

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
                    {"weighted", tensor.weighted},
                    {"exact", tensor.rounding.largest_error == 0},
                    {"largest_error", tensor.rounding.largest_error},
                    {"relative_error", tensor.rounding.relative()}});
    bytes += tensor.bytes;
  }
  return {{"tensor_bytes", bytes}, {"types", types_json(entries, "from_type", "to_type")}, {"tensors", list}};
}

// Both have the same types in the same order.
static_assert(WEFT_FILE_TYPE_F16 == static_cast<uint32_t>(FileType::f16) &&
              WEFT_FILE_TYPE_Q8_0 == static_cast<uint32_t>(FileType::q8_0) &&
              WEFT_FILE_TYPE_Q4_1 == static_cast<uint32_t>(FileType::q4_1) &&
              WEFT_FILE_TYPE_Q4_0 == static_cast<uint32_t>(FileType::q4_0) &&
              WEFT_FILE_TYPE_IQ4_NL == static_cast<uint32_t>(FileType::iq4_nl) &&
              WEFT_FILE_TYPE_MXFP4 == static_cast<uint32_t>(FileType::mxfp4) &&
              WEFT_FILE_TYPE_Q4_K_S == static_cast<uint32_t>(FileType::q4_k_s) &&
              WEFT_FILE_TYPE_Q4_K_M == static_cast<uint32_t>(FileType::q4_k_m) &&
              WEFT_FILE_TYPE_Q5_K_S == static_cast<uint32_t>(FileType::q5_k_s) &&
              WEFT_FILE_TYPE_Q5_K_M == static_cast<uint32_t>(FileType::q5_k_m) &&
              WEFT_FILE_TYPE_Q6_K == static_cast<uint32_t>(FileType::q6_k));

// Nothing for a value that is no type.
static std::optional<FileType> file_type_of(weft_file_type type) {
  for (const FileTypeInfo& one : file_types())
    if (static_cast<uint32_t>(one.type) == static_cast<uint32_t>(type)) return one.type;
  return std::nullopt;
}
static FileType need_file_type(weft_file_type type, const char* argument) {
  const std::optional<FileType> found = file_type_of(type);
  if (!found) throw Error(Code::invalid_argument, "it is " + std::to_string(type) + ", no type of files", argument);
  return *found;
}

const char* weft_file_type_name(weft_file_type type) {
  const std::optional<FileType> found = file_type_of(type);
  return found ? info(*found).name : nullptr;
}

weft_status weft_convert(const char* in, const char* out, const weft_convert_options* options, char** report_text,
                         weft_error* error) {
  return guard(error, [&] {
    require(in && out, "in or out", "it is NULL");
    const weft_convert_options chosen = read_struct(options);
    ConvertOptions wanted = {.type = need_file_type(chosen.type, "type"), .replace = chosen.replace != 0};
    if (chosen.vocab_type != WEFT_FILE_TYPE_DEFAULT)
      wanted.vocab_type = need_file_type(chosen.vocab_type, "vocab_type");
    require(!chosen.importance || *chosen.importance, "importance", "the path is empty");
    if (chosen.importance) wanted.importance = chosen.importance;
    const auto tensors = convert(in, out, wanted, [&](float done) {
      if (chosen.progress && chosen.progress(chosen.user, std::clamp(done, 0.0f, 1.0f)) != 0)
        throw Error(Code::cancelled, "converting was given up", in);
    });
    if (report_text) *report_text = copy_string(report_json(tensors).dump());
  });
}
