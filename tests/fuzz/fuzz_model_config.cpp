// The description of a model, of any family, and whether its tensors are those of that network. Input: a JSON object
// with "gguf" (true: GGUF's key-values; else config.json), "metadata", and "tensors": by name the type as ggml numbers
// it, then the shape. All tensors hold zeros.
#include "format/gguf.h"
#include "format/json.h"
#include "fuzz_support.h"
#include "model/config.h"
#include "model/weights.h"

namespace {

constexpr uint64_t kLargest = 1 << 20;  // bytes of a tensor
constexpr size_t kMostTensors = 4096;

// A tensor; nothing if it is none, or is too large to be tested here.
std::optional<weft::TensorView> tensor_of(const weft::JsonValue::Member& member) {
  static const std::vector<std::byte> zeros(kLargest);
  if (!member.value.is_array() || member.value.empty() || !member.value[0].is_number_unsigned()) return {};
  weft::TensorView tensor = {.name = member.name};
  const auto type = member.value[0].get<uint64_t>();
  const auto found = std::ranges::find_if(weft::kDTypes, [&](weft::DType one) { return weft::ggml_type(one) == type; });
  if (found == std::end(weft::kDTypes)) return {};
  tensor.dtype = *found;
  for (size_t i = 1; i < member.value.size(); ++i) {
    if (!member.value[i].is_number_unsigned()) return {};
    tensor.shape.push_back(member.value[i].get<uint64_t>());
  }
  const uint64_t bytes = weft::bytes_for(tensor.dtype, tensor.shape);
  if (bytes > kLargest) return {};
  tensor.bytes = std::span(zeros).first(bytes);
  return tensor;
}

void read(std::string_view text) {
  using namespace weft;
  const JsonValue document = parse_json(text, "fuzz.json");
  const JsonValue *const gguf = document.find("gguf"), *const metadata = document.find("metadata"),
                         *const tensors = document.find("tensors");
  if (!metadata || !metadata->is_object() || !tensors || !tensors->is_object()) return;
  ModelFile file;
  file.kind = gguf && *gguf == JsonValue(true) ? ModelFile::Kind::gguf : ModelFile::Kind::huggingface;
  file.path = "fuzz";
  file.metadata = *metadata;
  if (tensors->size() > kMostTensors) return;
  for (const JsonValue::Member& member : tensors->members()) {
    auto tensor = tensor_of(member);
    if (!tensor) return;
    file.index.emplace(tensor->name, file.tensors.size());
    file.tensors.push_back(std::move(*tensor));
  }
  Config config = read_config(file);
  if (config.layers != config.layer_configs.size() || config.vocab > UINT32_MAX / 2) std::abort();
  check_weights(file, config);
  if (config.vocab == 0 || config.width == 0) std::abort();
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  expect_answer_or_error([&] {
    try {
      read({reinterpret_cast<const char*>(data), size});
    } catch (const Error& error) {
      if (error.code() == Code::internal) std::abort();  // a value was taken for one of another type
      throw;
    }
  });
}
