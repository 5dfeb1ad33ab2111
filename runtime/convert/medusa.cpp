#include "convert/medusa.h"

#include <map>
#include <string_view>

#include "base/error.h"
#include "format/safetensors.h"
#include "model/tensors.h"

namespace weft {
namespace {

// Why a tensor that is no part of a head of one layer cannot be converted.
[[noreturn]] void refuse_leftover(const ModelFile& checkpoint, const std::string& name) {
  const char *why = "which is no part of a Medusa head", *hint = "";
  if (name.find(".linear.") != std::string::npos) {
    why = "a second layer of a head, or a head whose number does not follow";
    hint = "heads of one layer can be converted";
  } else if (name.starts_with("medusa_head.") && name.ends_with(".weight")) {
    why = "a vocabulary matrix of a head's own";
    hint = "heads that share the model's table can be converted";
  }
  throw Error(Code::unsupported, "not supported yet: tensor '" + name + "', " + why, checkpoint.path.string(), hint);
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
  uint64_t width = 0, count = 0;
  for (;; ++count) {
    const std::string own = "medusa_head." + std::to_string(count) + ".0.linear.",
                      name = "medusa." + std::to_string(count);
    const TensorView *const weight = take(own + "weight"), *const bias = take(own + "bias");
    if (!weight && !bias) break;
    if (!weight || !bias) refuse("head " + std::to_string(count) + " has no " + (weight ? "bias" : "weight"));
    if (count == 0 && !bias->shape.empty()) width = bias->shape[0];
    check(*weight, {width, width});
    check(*bias, {width});
    source.tensors.push_back({{weight}, name + ".weight"});
    source.tensors.push_back({{bias}, name + ".bias"});
  }
  if (!left.empty()) refuse_leftover(checkpoint, left.begin()->second->name);
  if (width == 0) refuse("it has no tensor 'medusa_head.0.0.linear.weight'");
  source.keys = {{"general.architecture", "medusa"}, {"medusa.embedding_length", width}, {"medusa.head_count", count}};
  return source;
}

}  // namespace weft
