#include "format/safetensors.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/quote.h"
#include "format/byte_reader.h"
#include "format/json.h"
#include "format/layout.h"
#include "format/limits.h"

namespace weft {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 16;

[[noreturn]] void fail(std::string sentence, const std::string& place, Code code = Code::bad_file) {
  throw Error(code, std::move(sentence), place);
}

// Fields of a tensor's entry. what: "tensor NAME".
const JsonValue& field(const JsonValue& entry, const char* key, const std::string& what, const std::string& place) {
  const JsonValue* found = entry.find(key);
  if (found == nullptr) fail(what + " has no \"" + key + "\"", place);
  return *found;
}

std::vector<uint64_t> numbers(const JsonValue& value, const char* key, const std::string& what,
                              const std::string& place) {
  if (!value.is_array()) fail(what + ": \"" + key + "\" is no array", place);
  std::vector<uint64_t> result;
  for (const JsonValue& element : value.items()) {
    if (!element.is_number_unsigned())
      fail(what + ": \"" + key + "\" holds something else than whole numbers from 0", place);
    result.push_back(element.get<uint64_t>());
  }
  return result;
}

DType dtype_of(const JsonValue& value, const std::string& tensor, const std::string& place, bool quantised) {
  if (!value.is_string()) fail("tensor " + tensor + ": \"dtype\" is no string", place);
  const std::string& text = value.text();
  if (text == "F32") return DType::f32;
  if (text == "F16") return DType::f16;
  if (text == "BF16") return DType::bf16;
  if (quantised)
    for (const DType part : {DType::u8, DType::i8, DType::i32, DType::i64, DType::f8_e4m3})
      if (text == name(part)) return part;
  throw Error(Code::unsupported, "not supported yet: " + printable(text) + " in tensor " + tensor, place,
              "Weft reads F32, F16 and BF16");
}

// Integers that are no weights: BERT's files number the positions, 0, 1, 2 ...; drafters of Gemma 4 order the
// vocabulary; early files of GPT-NeoX, GPT-J and GPT-2 have each layer's causal mask, [1, 1, tokens, tokens].
bool is_numbers(std::string_view name) {
  return name.ends_with("position_ids") || name == "masked_embedding.token_ordering";
}
bool is_mask(std::string_view name) { return name.ends_with(".attention.bias") || name.ends_with(".attn.bias"); }

// The type of a tensor without weights; nullopt for other ones.
std::optional<DType> type_of_no_weights(const std::string& name, const JsonValue& dtype, size_t dimensions) {
  if (is_numbers(name) && dtype == "I64") return DType::i64;
  if (is_mask(name) && dimensions == 4 && (dtype == "BOOL" || dtype == "U8")) return DType::u8;
  return std::nullopt;
}

TensorView read_entry(const std::string& name, const JsonValue& entry, std::span<const std::byte> data,
                      const std::string& place, bool quantised) {
  const std::string what = "tensor " + printable(name);
  if (!entry.is_object()) fail(what + ": its entry is no object", place);
  TensorView tensor;
  tensor.name = name;
  const JsonValue& dtype = field(entry, "dtype", what, place);
  tensor.shape = numbers(field(entry, "shape", what, place), "shape", what, place);
  const std::optional<DType> no_weights = type_of_no_weights(name, dtype, tensor.shape.size());
  tensor.dtype = no_weights ? *no_weights : dtype_of(dtype, printable(name), place, quantised);
  if (tensor.shape.size() > kMaxDimensions) {
    fail(what + " has " + std::to_string(tensor.shape.size()) + " dimensions; Weft reads at most " +
             std::to_string(kMaxDimensions),
         place);
  }
  const auto offsets = numbers(field(entry, "data_offsets", what, place), "data_offsets", what, place);
  if (offsets.size() != 2)
    fail(what + ": \"data_offsets\" has " + std::to_string(offsets.size()) + " numbers, not 2", place);
  place_tensor(tensor, offsets[0], data, place);
  if (offsets[1] != offsets[0] + tensor.bytes.size()) {
    fail(what + " needs " + std::to_string(tensor.bytes.size()) + " bytes from offset " + std::to_string(offsets[0]) +
             ", but its data_offsets end at " + std::to_string(offsets[1]),
         place);
  }
  return tensor;
}

// The format allows no bytes that belong to no tensor: holes have been used to hide other files in a model.
void check_filled(const std::vector<TensorView>& tensors, std::span<const std::byte> file, uint64_t start,
                  const std::string& place) {
  uint64_t end = start;
  for (const TensorView& tensor : tensors) {  // in the order of their data, disjoint
    const uint64_t begin = static_cast<uint64_t>(tensor.bytes.data() - file.data());
    if (begin != end) {
      fail("tensor " + printable(tensor.name) + " begins at byte " + std::to_string(begin) +
               ", but the data before it end at byte " + std::to_string(end),
           place);
    }
    end += tensor.bytes.size();
  }
  if (end != file.size()) {
    fail("the last tensor ends at byte " + std::to_string(end) + ", but the file ends at byte " +
             std::to_string(file.size()),
         place);
  }
}

}  // namespace

bool may_be_no_weights(std::string_view name) { return is_numbers(name) || is_mask(name); }

std::vector<TensorView> parse_safetensors(std::span<const std::byte> file, const std::string& place, bool quantised) {
  ByteReader reader(file, place);
  const auto length = reader.number<uint64_t>("the header's length");
  if (length > kMaxHeaderBytes) {
    fail("the header's length is " + std::to_string(length) + " bytes; the format allows " +
             std::to_string(kMaxHeaderBytes),
         place);
  }
  const auto text = reader.take(length, "the header");
  const auto data = file.subspan(reader.position());
  const JsonValue header = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, place + ", header");
  if (!header.is_object()) fail("the header is no JSON object", place);
  if (header.size() > kMaxTensors) {
    fail(
        "the file has " + std::to_string(header.size()) + " tensors; Weft reads at most " + std::to_string(kMaxTensors),
        place);
  }
  std::vector<TensorView> tensors;
  for (const auto& [name, entry] : header.members()) {
    if (name != "__metadata__") tensors.push_back(read_entry(name, entry, data, place, quantised));
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  check_disjoint(tensors, file, place);
  check_filled(tensors, file, reader.position(), place);
  std::erase_if(tensors, [&](const TensorView& tensor) {
    return type_of_no_weights(tensor.name, *header.find(tensor.name)->find("dtype"), tensor.shape.size()).has_value();
  });
  return tensors;
}

}  // namespace weft
