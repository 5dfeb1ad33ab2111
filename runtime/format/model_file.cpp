#include "format/model_file.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "format/gguf.h"
#include "format/gguf_parts.h"
#include "format/huggingface.h"
#include "format/whisper_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The metadata are the first part's.
void add_gguf(ModelFile& model, MappedFile file, GgufContents contents) {
  if (model.files.empty()) model.metadata = std::move(contents.metadata);
  std::move(contents.tensors.begin(), contents.tensors.end(), std::back_inserter(model.tensors));
  model.files.push_back(std::move(file));
}

// Another part than the one that was opened.
void add_part(ModelFile& model, const fs::path& path, const GgufPart& opened, uint64_t number) {
  std::error_code ignored;  // what is there and cannot be read shows itself when it is mapped
  if (!fs::exists(path, ignored))
    throw Error(
        Code::not_found,
        "part " + std::to_string(number + 1) + " of the model's " + std::to_string(opened.count) + " files is missing",
        path.string(), "keep all parts in one folder");
  MappedFile file(path);
  GgufContents contents = parse_gguf(file.bytes(), path.string());
  const GgufPart part = gguf_part(contents, path.string());
  if (part.number != number || part.count != opened.count || part.tensors != opened.tensors)
    throw Error(Code::bad_file,
                "the file says that it is part " + std::to_string(part.number + 1) + " of " +
                    std::to_string(part.count) + ", not part " + std::to_string(number + 1) + " of " +
                    std::to_string(opened.count) + " of the same model",
                path.string());
  add_gguf(model, std::move(file), std::move(contents));
}

ModelFile open_gguf(MappedFile file) {
  ModelFile model;
  model.kind = ModelFile::Kind::gguf;
  model.path = file.path();
  GgufContents contents = parse_gguf(file.bytes(), file.path().string());
  const GgufPart part = gguf_part(contents, file.path().string());
  if (part.count == 1) {
    add_gguf(model, std::move(file), std::move(contents));
    return model;
  }
  const fs::path path = file.path();
  const fs::path first = gguf_part_path(path, part, 0);
  model.path = first;
  for (uint64_t number = 0; number < part.count; ++number) {
    if (number == part.number)
      add_gguf(model, std::move(file), std::move(contents));
    else
      add_part(model, gguf_part_path(path, part, number), part, number);
  }
  if (part.tensors && model.tensors.size() != *part.tensors)
    throw Error(Code::bad_file,
                "the model's " + std::to_string(part.count) + " files have " + std::to_string(model.tensors.size()) +
                    " tensors, but they say that there are " + std::to_string(*part.tensors),
                first.string());
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

ModelFile open_whisper(MappedFile file) {
  WhisperContents contents = parse_whisper_file(file.bytes(), file.path().string());
  ModelFile model;
  model.kind = ModelFile::Kind::huggingface;
  model.path = file.path();
  model.metadata = std::move(contents.config);
  model.generation_config = std::move(contents.generation_config);
  model.tokenizer = std::move(contents.tokenizer);
  model.tensors = std::move(contents.tensors);
  model.files.push_back(std::move(file));
  return model;
}

ModelFile open_file(MappedFile file) {
  if (file.text().starts_with("GGUF")) return open_gguf(std::move(file));
  if (is_whisper_file(file.bytes())) return open_whisper(std::move(file));
  throw Error(Code::unsupported, "this is no GGUF file: it begins with \"" + printable(file.text().substr(0, 4)) + "\"",
              file.path().string(), "for a Hugging Face model pass its folder");
}

bool are_parts_of_one(const std::set<fs::path>& files) {
  std::set<std::pair<std::string, uint64_t>> models;
  for (const fs::path& file : files) {
    uint64_t count = 0;
    const auto stem = gguf_part_stem(file.filename().string(), count);
    models.emplace(stem.value_or(""), stem ? count : 0);
  }
  return models.size() == 1 && models.begin()->second > 1;
}

// Safetensors come before a .gguf; and a folder that has a .gguf may have a config.json without being a Hugging Face
// model.
ModelFile open_folder(const fs::path& folder) {
  std::error_code ignored;  // what is there and cannot be read shows itself when it is mapped
  const bool safetensors =
      fs::exists(folder / "model.safetensors", ignored) || fs::exists(folder / "model.safetensors.index.json", ignored);
  if (safetensors) return open_huggingface(folder);
  const auto found = gguf_files(folder);
  if (found.size() == 1) return open_file(MappedFile(*found.begin()));
  if (found.empty() && fs::exists(folder / "config.json", ignored)) return open_huggingface(folder);
  if (found.empty()) {
    throw Error(Code::not_found, "the folder has neither a config.json nor a .gguf file", folder.string(),
                "pass a GGUF file, or a folder as Hugging Face publishes models");
  }
  if (are_parts_of_one(found)) return open_file(MappedFile(*found.begin()));
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
  ModelFile model = fs::is_directory(path, ignored) ? open_folder(path) : open_file(MappedFile(path));
  build_index(model);
  return model;
}

ModelFile open_image_model(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  ModelFile model = folder ? open_huggingface(path, Half::image) : open_file(MappedFile(path));
  // The weights of the patches, a convolution's (width, channels, height, width): as a matrix.
  for (TensorView& tensor : model.tensors)
    if (tensor.shape.size() == 4) tensor.shape = {tensor.shape[0], element_count(std::span(tensor.shape).subspan(1))};
  build_index(model);
  return model;
}

ModelFile open_model(MappedFile file) {
  ModelFile model = open_file(std::move(file));
  build_index(model);
  return model;
}

}  // namespace weft
