#include "convert/medusa.h"

#include <map>
#include <string_view>

#include "base/error.h"
#include "format/safetensors.h"
#include "model/tensors.h"

namespace weft {
namespace {

// Why a tensor that is no part of a head cannot be converted.
[[noreturn]] void refuse_leftover(const ModelFile& checkpoint, const std::string& name) {
  const bool head = name.starts_with("medusa_head.");
  throw Error(Code::unsupported,
              "not supported: tensor '" + name + "', which is " +
                  (head ? "of a head or a layer whose number does not follow" : "no part of a Medusa head"),
              checkpoint.path.string());
}

}  // namespace

bool is_safetensors(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".safetensors" && std::filesystem::is_regular_file(path, ignored);
}

ModelFile open_medusa(const std::filesystem::path& path) {
  ModelFile file;
  file.kind = ModelFile::Kind::huggingface;
  file.path = path;
  file.files.emplace_back(path);
  file.tensors = parse_safetensors(file.files[0].bytes(), path.string());
  return file;
}

ConvertSource gguf_of_medusa(const ModelFile& checkpoint) {
  std::map<std::string_view, const TensorView*> left;
  for (const TensorView& tensor : checkpoint.tensors) left[tensor.name] = &tensor;
  const auto take = [&](const std::string& name) -> const TensorView* {
    const auto found = left.find(name);
    if (found == left.end()) return nullptr;
    const TensorView* const tensor = found->second;
    left.erase(found);
    return tensor;
  };
  const auto refuse = [&](const std::string& sentence) {
    throw Error(Code::bad_file, sentence, checkpoint.path.string());
  };
  const auto check = [&](const TensorView& tensor, const std::vector<uint64_t>& shape) {
    if (tensor.shape != shape)
      refuse("tensor '" + tensor.name + "' has the shape " + text_of(tensor.shape) + ", expected " + text_of(shape));
  };
  ConvertSource source;
  const auto add = [&](const TensorView* tensor, const std::string& name) {
    source.tensors.push_back({{tensor}, name});
  };
  uint64_t width = 0, vocab = 0, count = 0, layers = 0, tables = 0;
  for (;; ++count) {
    const std::string head = "medusa_head." + std::to_string(count) + ".",
                      name = "medusa." + std::to_string(count) + ".";
    uint64_t layer = 0;
    for (;; ++layer) {
      const std::string own = head + std::to_string(layer) + ".linear.";
      const TensorView *const weight = take(own + "weight"), *const bias = take(own + "bias");
      if (!weight && !bias) break;
      if (!weight || !bias) refuse("head " + std::to_string(count) + " has no " + (weight ? "bias" : "weight"));
      if (width == 0 && !bias->shape.empty()) width = bias->shape[0];
      check(*weight, {width, width});
      check(*bias, {width});
      const std::string prefix = layer == 0 ? "" : std::to_string(layer) + ".";
      add(weight, name + prefix + "weight");
      add(bias, name + prefix + "bias");
    }
    if (layer == 0) break;
    if (count == 0) layers = layer;
    if (layer != layers)
      refuse("head " + std::to_string(count) + " has " + std::to_string(layer) + " layers, head 0 has " +
             std::to_string(layers));
    const TensorView* const table = take(head + std::to_string(layers) + ".weight");
    if (!table) continue;
    if (vocab == 0 && !table->shape.empty()) vocab = table->shape[0];
    check(*table, {vocab, width});
    add(table, name + "output.weight");
    ++tables;
  }
  if (!left.empty()) refuse_leftover(checkpoint, left.begin()->second->name);
  if (width == 0) refuse("it has no tensor 'medusa_head.0.0.linear.weight'");
  if (tables != 0 && tables != count) refuse("some heads have a vocabulary matrix of their own and some have none");
  source.keys = {{"general.architecture", "medusa"}, {"medusa.embedding_length", width}, {"medusa.head_count", count}};
  if (layers > 1) source.keys["medusa.layer_count"] = layers;
  return source;
}

}  // namespace weft
