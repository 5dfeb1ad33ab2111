#include "format/model_file.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "format/gguf.h"
#include "format/huggingface.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

ModelFile open_gguf(MappedFile file) {
  ModelFile model;
  model.kind = ModelFile::Kind::gguf;
  model.path = file.path();
  GgufContents contents = parse_gguf(file.bytes(), file.path().string());
  model.metadata = std::move(contents.metadata);
  model.tensors = std::move(contents.tensors);
  model.files.push_back(std::move(file));
  return model;
}

std::set<fs::path> gguf_files(const fs::path& folder) {
  std::set<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".gguf") found.insert(it->path());
  }
  if (error) throw Error(Code::io, "cannot list the folder: " + error.message(), folder.string());
  return found;
}

void build_index(ModelFile& model) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    // Each file's reader has refused repeated names; this finds those in two shards.
    if (model.index.emplace(model.tensors[i].name, i).second) continue;
    throw Error(Code::bad_file, "tensor " + printable(model.tensors[i].name) + " is there twice", model.path.string());
  }
}

ModelFile open_gguf_of_any_name(MappedFile file) {
  if (file.text().starts_with("GGUF")) return open_gguf(std::move(file));
  throw Error(Code::unsupported, "this is no GGUF file: it begins with \"" + printable(file.text().substr(0, 4)) + "\"",
              file.path().string(), "for a Hugging Face model pass its folder");
}

// Safetensors come before a .gguf; and a folder that has a .gguf may have a config.json without being a Hugging Face
// model.
ModelFile open_folder(const fs::path& folder) {
  std::error_code ignored;  // what is there and cannot be read shows itself when it is mapped
  const bool safetensors =
      fs::exists(folder / "model.safetensors", ignored) || fs::exists(folder / "model.safetensors.index.json", ignored);
  if (safetensors) return open_huggingface(folder);
  const auto found = gguf_files(folder);
  if (found.size() == 1) return open_gguf_of_any_name(MappedFile(*found.begin()));
  if (found.empty() && fs::exists(folder / "config.json", ignored)) return open_huggingface(folder);
  if (found.empty()) {
    throw Error(Code::not_found, "the folder has neither a config.json nor a .gguf file", folder.string(),
                "pass a GGUF file, or a folder as Hugging Face publishes models");
  }
  throw Error(Code::invalid_argument,
              "the folder has " + std::to_string(found.size()) + " .gguf files, " +
                  printable(found.begin()->filename().string()) + " and " +
                  printable(std::next(found.begin())->filename().string()) + " among them",
              folder.string(), "pass one of them");
}

}  // namespace

TensorView ModelFile::read(const TensorView& tensor, std::vector<std::byte>& bytes) const {
  TensorView copy = tensor;
  for (const MappedFile& file : files) {
    if (!file.holds(tensor.bytes)) continue;
    bytes.resize(tensor.bytes.size());
    file.read(tensor.bytes, bytes);
    copy.bytes = bytes;
    break;
  }
  return copy;
}

void ModelFile::forget_tokenizer() {
  std::erase_if(metadata.members(),
                [](const JsonValue::Member& entry) { return entry.name.starts_with("tokenizer."); });
  tokenizer = tokenizer_config = nullptr;
#ifdef __GLIBC__
  malloc_trim(0);  // else hundreds of thousands of small texts stay with the process while the weights come
#endif
}

const TensorView* ModelFile::find(std::string_view name) const {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &tensors[found->second];
}

ModelFile open_model(const fs::path& path) {
  std::error_code ignored;
  ModelFile model = fs::is_directory(path, ignored) ? open_folder(path) : open_gguf_of_any_name(MappedFile(path));
  build_index(model);
  return model;
}

ModelFile open_image_model(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  ModelFile model = folder ? open_huggingface(path, Half::image) : open_gguf_of_any_name(MappedFile(path));
  // The weights of the patches, a convolution's (width, channels, height, width): as a matrix.
  for (TensorView& tensor : model.tensors)
    if (tensor.shape.size() == 4) tensor.shape = {tensor.shape[0], element_count(std::span(tensor.shape).subspan(1))};
  build_index(model);
  return model;
}

ModelFile open_model(MappedFile file) {
  ModelFile model = open_gguf_of_any_name(std::move(file));
  build_index(model);
  return model;
}

}  // namespace weft
