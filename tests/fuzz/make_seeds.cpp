// weft-fuzz-seeds FOLDER: small valid files for each fuzz target to start from, in FOLDER/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "convert/gguf_writer.h"
#include "format/gguf.h"
#include "format/model_file.h"
#include "support/model_maker.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string small_gguf(uint32_t version) {
  weft::GgufWriter w(version);
  w.key("general.alignment", uint32_t{32});
  w.key("text", "a\"b");
  w.key("flag", true);
  w.key("rate", 0.5f);
  w.key("words", std::vector<std::string>{"x", "", "yz"});
  w.key("ints", std::vector<int32_t>{1, -2});
  w.key(
      "nested", weft::kGgufArray,
      weft::le<uint32_t>(weft::kGgufArray) + w.length(1) + weft::le<uint32_t>(weft::kGgufUint8) + w.length(2) + "\1\2");
  w.tensor("a", {2, 3}, 0, 24);
  w.tensor("b", {3}, 1, 6);
  w.tensor("c", {4}, 30, 8);
  for (const weft::DType type : weft::kDTypes)
    if (is_quantised(type))
      w.tensor(name(type), {2, block_elements(type)}, weft::ggml_type(type), 2 * block_bytes(type));
  return w.file_of_zeros();
}

std::string small_safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"c":{"dtype":"F16","shape":[3],"data_offsets":[10,16]}})";
  return weft::le(uint64_t{header.size()}) + header + std::string(16, '\1');
}

// A document, then a text for it.
void write_tokenizer(const fs::path& folder, const std::string& name, const nlohmann::json& document) {
  write(folder / "tokenizer" / name, document.dump() + std::string(1, '\0') + "ab <s> \xc3\xa9\xff aabb 12 <t>");
}

// Byte-level vocabularies of four characters, as GGUF and as tokenizer.json.
void write_byte_level_tokenizers(const fs::path& folder) {
  const nlohmann::json tokens = {"<s>", "<t>", "a", "b", "Ġ", "1", "ab", "Ġa"}, merges = {"a b", "Ġ a"};
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2"}) {
    write_tokenizer(folder, std::string("gguf-") + pre,
                    {{"tokenizer.ggml.model", "gpt2"},
                     {"tokenizer.ggml.pre", pre},
                     {"tokenizer.ggml.tokens", tokens},
                     {"tokenizer.ggml.merges", merges},
                     {"tokenizer.ggml.token_type", {3, 4, 1, 1, 1, 1, 1, 1}},
                     {"tokenizer.ggml.bos_token_id", 0},
                     {"tokenizer.ggml.eos_token_id", 0}});
  }
  nlohmann::json vocabulary;
  for (size_t id = 0; id < tokens.size(); ++id) vocabulary[tokens[id].get<std::string>()] = id;
  const nlohmann::json split = {
      {"type", "Split"},
      {"pattern", {{"Regex", "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}}},
      {"behavior", "Isolated"},
      {"invert", false}};
  const nlohmann::json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  write_tokenizer(folder, "hf-byte-level",
                  {{"added_tokens", {{{"id", 0}, {"content", "<s>"}, {"special", true}}}},
                   {"normalizer", {{"type", "NFC"}}},
                   {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                   {"post_processor", nullptr},
                   {"decoder", {{"type", "ByteLevel"}}},
                   {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}});
}

// SentencePiece-style vocabularies, as the model maker writes them.
void write_sentencepiece_tokenizers(const fs::path& folder) {
  const fs::path models = folder / "models";
  weft::LlamaShape shape;
  shape.vocab = 300;
  fs::create_directories(models);
  weft::make_gguf(models / "m.gguf", shape);
  weft::make_huggingface(models / "m", shape, {.type = weft::DType::f16});
  write_tokenizer(folder, "gguf-sentencepiece", weft::open_model(models / "m.gguf").metadata);
  const weft::ModelFile model = weft::open_model(models / "m");
  nlohmann::json document = model.tokenizer;
  document["tokenizer_config"] = model.tokenizer_config;
  document["generation_config"] = model.generation_config;
  write_tokenizer(folder, "hf-sentencepiece", document);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: weft-fuzz-seeds FOLDER\n");
    return 2;
  }
  const fs::path folder = argv[1];
  for (uint32_t version = 1; version <= 3; ++version) {
    write(folder / "gguf" / ("version-" + std::to_string(version)), small_gguf(version));
  }
  write_byte_level_tokenizers(folder);
  write_sentencepiece_tokenizers(folder);
  write(folder / "safetensors" / "three", small_safetensors());
  write(
      folder / "json_config" / "config",
      R"({"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-5, "tie": true, "scaling": null, "ids": [1, -2], "s": "\u00e9"})");
  write(folder / "json_config" / "index",
        R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x"}})");
}
