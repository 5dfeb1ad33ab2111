// A model on disk, whatever its format: named tensors and what the files say about them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/json_value.h"
#include "format/tensor.h"

namespace weft {

// A module of sentence-transformers that has weights of its own: a folder with config.json and model.safetensors.
struct SentenceModule {
  std::string place;  // of its config.json
  JsonValue config;
  std::vector<TensorView> tensors;
};

// Constant after open_model except for forget_tokenizer(); any number of threads may read it. Movable; the tensors'
// bytes are in mapped files and stay valid as long as the object, even after a move.
struct ModelFile {
  enum class Kind { gguf, huggingface };

  Kind kind = Kind::gguf;
  std::filesystem::path path;       // the GGUF file, the first of several, or the folder
  std::vector<MappedFile> files;    // those that hold tensors
  std::vector<TensorView> tensors;  // in file order, shard after shard; names are unique

  // GGUF: one flat object of all key-values. Hugging Face: config.json. Strings from GGUF need not be UTF-8.
  JsonValue metadata;

  // Hugging Face only: the files of these names; null for a missing file. A chat_template.jinja in the folder becomes
  // tokenizer_config["chat_template"] and takes precedence over the one in tokenizer_config.json.
  JsonValue tokenizer, tokenizer_config, generation_config;
  // As sentence-transformers writes them: 1_Pooling/config.json (or where modules.json says), modules.json (an array),
  // sentence_bert_config.json, config_sentence_transformers.json.
  JsonValue pooling, sentence_modules, sentence_transformer, sentence_prompts;
  std::vector<SentenceModule> dense_modules;  // in order; their tensors are not in `tensors`
  JsonValue logit_score;                      // config.json of the module LogitScore, of a reranker
  // For an image encoder: preprocessor_config.json, or "image_processor" of processor_config.json.
  JsonValue preprocessor;

  // MappedFile::release, whichever file the bytes are of.
  void release(std::span<const std::byte> part) const noexcept {
    for (const MappedFile& file : files) file.release(part);
  }

  // A tensor with a copy of its bytes that MappedFile::read puts into `bytes`; one that is of no file stays as it is.
  TensorView read(const TensorView& tensor, std::vector<std::byte>& bytes) const;

  // MappedFile::check_length, of all files.
  void check_length() const {
    for (const MappedFile& file : files) file.check_length();
  }

  // Frees the parts that only making a tokenizer needs; with a large vocabulary they take much memory.
  void forget_tokenizer();

  // The tensor of this name; nullptr if the file lacks it.
  const TensorView* find(std::string_view name) const;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>>
      index;  // name -> place in tensors; open_model fills it
};

// Opens a GGUF file, a Hugging Face folder (config.json beside model.safetensors, or beside its index and shards), or a
// folder with a single .gguf file. A model in several GGUF files (gguf_parts.h) is opened by any of them, or by a
// folder that has no others. The content decides, not the name. Throws Error(not_found), Error(io), Error(bad_file) or
// Error(unsupported), naming the file.
ModelFile open_model(const std::filesystem::path& path);
// Opens a GGUF file that is mapped. Throws as above.
ModelFile open_model(MappedFile file);
// Opens the image encoder of a Hugging Face folder of Idefics3, SmolVLM, Gemma 3 or Qwen3-VL (open_model opens only the
// text model of such a folder), or of a GGUF file ("mmproj"). Throws as open_model, and Error(unsupported) without an
// image encoder.
ModelFile open_image_model(const std::filesystem::path& path);

// The shards of a parsed model.safetensors.index.json, tensor name -> file name, each a plain name that cannot leave
// the folder. Throws Error(bad_file).
std::unordered_map<std::string, std::string> parse_shard_index(const JsonValue& document, const std::string& place);

}  // namespace weft
