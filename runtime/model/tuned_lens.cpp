#include "model/tuned_lens.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "model/tensors.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr float kLargestHalf = 65504;  // f16

// A whole number of config.json that the model has too.
void check_number(const JsonValue& document, const char* key, uint32_t own, const std::string& place) {
  const JsonValue* found = document.find(key);
  if (found == nullptr || !found->is_number_unsigned())
    throw Error(Code::bad_file, std::string("it has no number '") + key + "'", place);
  if (*found != own)
    throw Error(Code::invalid_argument,
                std::string("'") + key + "' is " + found->dump() + ", the model has " + std::to_string(own), place,
                "a tuned lens belongs to the model that it was trained for");
}

// Checks the lens's configuration. Returns true if the translators have biases.
bool read_config(const JsonValue& document, const Config& config, const std::string& place) {
  if (!document.is_object()) throw Error(Code::bad_file, "the document is no JSON object", place);
  const JsonValue *type = document.find("lens_type"), *bias = document.find("bias");
  if (type != nullptr && *type != "linear_tuned_lens")
    throw Error(Code::unsupported, "not supported yet: the lens_type " + type->dump(), place,
                "Weft reads \"linear_tuned_lens\"");
  if (bias != nullptr && !bias->is_boolean()) throw Error(Code::bad_file, "'bias' is no truth value", place);
  check_number(document, "d_model", config.width, place);
  check_number(document, "num_hidden_layers", config.layers, place);
  return bias == nullptr || bias->get<bool>();
}

std::string name_of(uint32_t layer, bool bias) { return std::to_string(layer) + (bias ? ".bias" : ".weight"); }

const TensorView* find(const ModelFile& file, const std::string& name) {
  const auto found = std::ranges::find(file.tensors, name, &TensorView::name);
  return found == file.tensors.end() ? nullptr : &*found;
}

std::vector<float> floats_of(const ModelFile& file, const TensorView& tensor) {
  std::vector<std::byte> bytes;
  std::vector<float> values(element_count(tensor.shape));
  to_float(file.read(tensor, bytes), 0, values);
  return values;
}

void check_tensor(const ModelFile& file, const std::string& name, const std::vector<uint64_t>& shape) {
  const std::string place = file.files[0].path().string();
  const TensorView* const tensor = find(file, name);
  if (!tensor) throw Error(Code::bad_file, "the tensor '" + name + "' is missing", place);
  if (tensor->shape != shape)
    throw Error(Code::bad_file,
                "tensor '" + name + "' has the shape " + text_of(tensor->shape) + ", expected " + text_of(shape),
                place);
  for (const float value : floats_of(file, *tensor)) {
    if (!std::isfinite(value))
      throw Error(Code::bad_file, "tensor '" + name + "' has a number that is not finite", place);
    if (std::abs(value) > kLargestHalf)
      throw Error(Code::unsupported,
                  "tensor '" + name + "' has the number " + number_text(value) + ", too large for f16", place);
  }
}

}  // namespace

ModelFile open_tuned_lens(const fs::path& folder, const Config& config) {
  const fs::path params = folder / "params.safetensors";
  const MappedFile description(folder / "config.json");
  const bool biased =
      read_config(parse_json(description.text(), description.path().string()), config, description.path().string());
  std::error_code ignored;
  if (!fs::exists(params, ignored) && fs::exists(folder / "params.pt", ignored))
    throw Error(Code::not_found, "there is only params.pt", params.string(),
                "apps/weft/tuned_lens.py makes params.safetensors of it");
  ModelFile file;
  file.kind = ModelFile::Kind::huggingface;
  file.path = folder;
  file.files.emplace_back(params);
  file.tensors = parse_safetensors(file.files[0].bytes(), params.string());
  file.check_length();
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    check_tensor(file, name_of(layer, false), {config.width, config.width});
    if (biased) check_tensor(file, name_of(layer, true), {config.width});
  }
  if (file.tensors.size() == size_t{config.layers} * (biased ? 2 : 1)) return file;
  for (const TensorView& tensor : file.tensors) {
    bool known = false;
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      known |= tensor.name == name_of(layer, false) || (biased && tensor.name == name_of(layer, true));
    if (!known)
      throw Error(Code::bad_file, "tensor " + printable(tensor.name) + " is no part of a translator", params.string());
  }
  return file;
}

Translators::Translators(const Model& model, const ModelFile& file, std::span<const uint32_t> layers) : model_(model) {
  const uint32_t width = model.config.width;
  file.check_length();
  Uploader uploader(model.device);
  for (const uint32_t layer : layers) {
    if (layer == model.config.layers || has(layer)) continue;
    Translator& made = translators_[layer];
    made.matrix = {Format::f16, width, width};
    const uint64_t bytes = made.matrix.bytes();
    made.buffer = Buffer(model.device, "translator", bytes + width * sizeof(float), Memory::device);
    made.matrix.view = View(made.buffer).part(0, bytes);
    std::vector<std::byte> copied;
    const TensorView weight = file.read(*find(file, name_of(layer, false)), copied);
    const TensorView* const parts[] = {&weight};
    upload_matrix(uploader, made.matrix, parts, [](uint64_t) {});
    const TensorView* const bias = find(file, name_of(layer, true));
    if (!bias) continue;
    made.matrix.bias = View(made.buffer).part(bytes, width * sizeof(float));
    uploader.upload(made.matrix.bias, std::span<const float>(floats_of(file, *bias)));
  }
  abi::StepState step = {};
  step.end = model.device->plan().block_tokens;
  step_ = Buffer(model.device, "translators' step", sizeof step, Memory::shared);
  std::memcpy(step_.data(), &step, sizeof step);
}

// In passes of block_tokens tokens, whose products keep their inputs as floats: those of more tokens may round them to
// f16 (matmul_tiled), whose range the states of some models leave.
void Translators::record(Recorder& r, uint32_t layer, const View& from, const View& to, uint32_t tokens) const {
  const uint32_t block = model_.device->plan().block_tokens;
  const uint64_t row_bytes = uint64_t{stride_of(model_.config.width)} * sizeof(float), bytes = block * row_bytes;
  r.copy(from, to);
  for (uint64_t first = 0; first < tokens * row_bytes; first += bytes)
    ops::matmul(r, translators_.at(layer).matrix, step_, from.part(first, bytes), to.part(first, bytes), block,
                ops::Output::add);
}

}  // namespace weft
