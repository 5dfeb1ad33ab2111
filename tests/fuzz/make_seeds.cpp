// weft-fuzz-seeds FOLDER: small valid files for each fuzz target to start from, in FOLDER/NAME.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "device_model.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"
#include "session_seal.h"
#include "support/capi_options.h"
#include "support/json_value.h"
#include "support/model_maker.h"
#include "support/source_folder.h"
#include "weft/descriptor.h"

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

// "quantization_config", then a safetensors file with the parts of matrices (32, 64). data: of the last part.
void write_quantised(const fs::path& folder, const std::string& name, const nlohmann::json& config,
                     const std::vector<std::tuple<std::string, std::string, std::vector<uint64_t>, size_t>>& parts,
                     const std::string& data = {}) {
  nlohmann::json header;
  size_t end = 0;
  for (const auto& [part, type, shape, bytes] : parts) {
    header[part] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  const std::string text = header.dump();
  write(folder / "quantised" / name, config.dump() + std::string(1, '\0') + weft::le(uint64_t{text.size()}) + text +
                                         std::string(end - data.size(), '\1') + data);
}

void write_quantised_folders(const fs::path& folder) {
  write_quantised(folder, "gptq", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"desc_act", true}},
                  {{"a.qweight", "I32", {8, 32}, 1024},
                   {"a.qzeros", "I32", {2, 4}, 32},
                   {"a.scales", "F16", {2, 32}, 128},
                   {"a.g_idx", "I32", {64}, 256}},
                  std::string(256, '\0'));
  write_quantised(
      folder, "awq", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", -1}, {"version", "gemm"}},
      {{"a.qweight", "I32", {64, 4}, 1024}, {"a.qzeros", "I32", {1, 4}, 16}, {"a.scales", "F16", {1, 32}, 64}});
  write_quantised(folder, "compressed",
                  {{"quant_method", "compressed-tensors"},
                   {"format", "mixed-precision"},
                   {"config_groups", {{"a", {{"weights", {{"block_structure", {16, 32}}}}}}}}},
                  {{"a.weight_packed", "I32", {32, 8}, 1024},
                   {"a.weight_scale", "BF16", {32, 2}, 128},
                   {"a.weight_zero_point", "I32", {4, 2}, 32},
                   {"b.weight", "I8", {32, 64}, 2048},
                   {"b.weight_scale", "F32", {1}, 4},
                   {"c.weight", "F8_E4M3", {32, 64}, 2048},
                   {"c.weight_scale", "F32", {2, 2}, 16},
                   {"a.weight_shape", "I64", {2}, 16}},
                  weft::le(uint64_t{32}) + weft::le(uint64_t{64}));
  write_quantised(folder, "fp8", {{"quant_method", "fp8"}, {"weight_block_size", {24, 48}}},
                  {{"a.weight", "F8_E4M3", {32, 64}, 2048}, {"a.weight_scale_inv", "F32", {2, 2}, 16}});
  write_quantised(folder, "mxfp4", {{"quant_method", "mxfp4"}},
                  {{"a_blocks", "U8", {2, 3, 2, 16}, 192}, {"a_scales", "U8", {2, 3, 2}, 12}});
  const std::string state = R"({"shape": [32, 64], "blocksize": 64, "nested_blocksize": 16, "nested_offset": 0.5})";
  write_quantised(folder, "bitsandbytes", {{"quant_method", "bitsandbytes"}},
                  {{"a.weight", "U8", {1024, 1}, 1024},
                   {"a.weight.absmax", "U8", {32}, 32},
                   {"a.weight.quant_map", "F32", {16}, 64},
                   {"a.weight.nested_quant_map", "F32", {256}, 1024},
                   {"a.weight.nested_absmax", "F32", {2}, 8},
                   {"b.weight", "I8", {32, 64}, 2048},
                   {"b.SCB", "F32", {32}, 128},
                   {"a.weight.quant_state.bitsandbytes__nf4", "U8", {state.size()}, state.size()}},
                  state);
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

std::string zero_between(const std::string& a, const std::string& b) { return a + std::string(1, '\0') + b; }

void write_lists(const fs::path& folder) {
  write(folder / "keep_list" / "terms", zero_between("!@,@,!prompt", "7\n8\n"));
  write(folder / "keep_list" / "file", zero_between("@", "# ids\n3\n 12 # one\n\"a\"\n\"\\u0041\"\n299\n"));
  write(folder / "keep_list" / "other", zero_between("@", "# weft-keep fingerprint=0123456789abcdef tokens=300\n5\n"));
}

// The same device as in fuzz_cache_files.cpp.
void write_cache_files(const fs::path& folder) {
  const auto u32 = [](uint32_t value) { return weft::le(value); };
  const std::string vulkan = u32(32) + u32(1) + u32(0x10de) + u32(0x2503) + std::string(16, '\x09') + "driver's";
  write(folder / "cache_files" / "pipelines", "P" + vulkan);
  write(folder / "cache_files" / "pipelines-raw",
        "pWEFTPC01" + weft::le(uint64_t{vulkan.size()}) + "checksum" + vulkan);
  write(folder / "cache_files" / "tuning",
        "Tsplit 4\nrow_tiles 1\nblock_tokens 8\nmatrix_side 16\ntile_tokens 64\nreduce_threads 256\n");
  write(folder / "cache_files" / "tuning-raw", "tweft tune 4\ndevice 10de-2503 driver 00000007-09090909\n");
  write(folder / "cache_files" / "states", "S" + std::string(64, '?'));
}

// A vocabulary of all bytes and few others, and two tensors.
void write_whisper_files(const fs::path& folder) {
  const auto u32 = [](std::initializer_list<uint32_t> values) {
    std::string text;
    for (const uint32_t value : values) text += weft::le(value);
    return text;
  };
  const std::vector<std::string> words = {"ab", " (", "((", "", "\xe2\x99"};
  const auto tokens = static_cast<uint32_t>(256 + words.size());
  std::string file =
      u32({0x67676d6c, tokens + 15, 3, 8, 2, 1, 20, 8, 2, 1, 5, 1, 5, 2}) + std::string(40, '\0') + u32({tokens});
  for (uint32_t byte = 0; byte < 256; ++byte) file += u32({1}) + std::string(1, static_cast<char>(byte));
  for (const std::string& word : words) file += u32({static_cast<uint32_t>(word.size())}) + word;
  for (const auto& [name, type, bytes] :
       {std::tuple("decoder.blocks.0.mlp.0.weight", 8u, 68u), std::tuple("b", 0u, 256u)})
    file += u32({2, static_cast<uint32_t>(std::strlen(name)), type, 32, 2}) + name + std::string(bytes, '\1');
  write(folder / "whisper_file" / "small", file);
}

void write_sentence_files(const fs::path& folder) {
  const std::string header =
      R"({"linear.weight":{"dtype":"F32","shape":[2,8],"data_offsets":[0,64]},"linear.bias":{"dtype":"F32","shape":[2],"data_offsets":[64,72]}})";
  const std::string modules =
      R"([{"type":"sentence_transformers.models.Transformer"},{"type":"x.Pooling"},{"type":"x.Dense"},{"type":"x.Normalize"}])";
  write(
      folder / "sentence_files" / "all",
      zero_between(
          R"({"pooling":{"pooling_mode_mean_tokens":true,"word_embedding_dimension":8},"transformer":{"max_seq_length":32},)"
          R"("prompts":{"prompts":{"query":"q: "},"default_prompt_name":null},"dense":{"in_features":8,"out_features":2,"bias":true,)"
          R"("activation_function":"torch.nn.modules.activation.Tanh"},"modules":)" +
              modules + "}",
          weft::le(uint64_t{header.size()}) + header + std::string(72, '\1')));
  write(
      folder / "sentence_files" / "score",
      R"({"logit_score":{"true_token_id":3,"false_token_id":4},"modules":[{"type":"x.LogitScore"}],"pooling":{"pooling_mode":"lasttoken"}})");
}

// 16 bits, one channel, as WAV; and the form with it that OpenAI's client sends.
void write_recordings(const fs::path& folder) {
  const std::string samples(64, '\3');
  const auto u16 = [](uint16_t value) { return weft::le(value); };
  const std::string wav = "RIFF" + weft::le(uint32_t{100}) + "WAVEfmt " + weft::le(uint32_t{16}) + u16(1) + u16(1) +
                          weft::le(uint32_t{16000}) + weft::le(uint32_t{32000}) + u16(2) + u16(16) + "data" +
                          weft::le(uint32_t{64}) + samples;
  std::string form;
  for (const auto& [name, value] : {std::pair<std::string, std::string>("model", "whisper"),
                                    {"language", "de"},
                                    {"prompt", "a"},
                                    {"response_format", "verbose_json"},
                                    {"temperature", "0.5"},
                                    {"timestamp_granularities[]", "segment"},
                                    {"file", wav}})
    form += "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
  write(folder / "transcription" / "wav", "r" + wav);
  write(folder / "transcription" / "form", zero_between("fmultipart/form-data; boundary=b", form + "--b--\r\n"));
}

void write_requests(const fs::path& folder) {
  const auto request = [](const std::string& first, const std::string& body) {
    std::string text = first + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key\r\n";
    if (!body.empty())
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + body;
  };
  const std::string get = request("GET /", ""), post = request("POST /tokenize", R"({"content": "a"})");
  write(folder / "http" / "page", "0" + get + get);
  write(folder / "http" / "key", "1" + request("GET /metrics", "") + request("GET /v1/models/x", ""));
  write(folder / "http" / "post", "0" + post + request("POST /v1/chat/completions", R"({"messages": []})") + post);
  write(folder / "http" / "cut", "0" + get.substr(0, 9) + "----\n" + get.substr(9));
  write(folder / "http" / "chunks",
        "0POST /tokenize HTTP/1.1\r\nHost: [::1]:80\r\nContent-Type: application/json\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\n{\"c\r\nd\r\nontent\": \"a\"}\r\n0\r\n\r\n");
  write(folder / "http" / "preflight",
        "1OPTIONS /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://example.org\r\n"
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n");
}

// Programs of capi_machine.cpp: a session, then calls.
void write_programs(const fs::path& folder) {
  const std::string session("\x18\0\0\0\0\0", 6), prompt("\0\0\5\4\x0a\x14\x1e\x28\0\0", 10);
  const std::string generate("\2\0\0\5\1\0\0\0\0\0\0\0", 12), told(5, '\x0f');
  write(folder / "capi" / "answer", session + prompt + generate + told + prompt + generate + told);
  for (char call = 0; call < 15; ++call)  // one of each group, in the midst of an answer
    for (char kind = 0; kind < 8; ++kind)
      write(folder / "capi" / ("call-" + std::to_string(call) + "-" + std::to_string(kind)),
            session + prompt + generate + told + std::string({call, 0, 0, kind, 1, 2, 3, 0, 0, 0}) + generate + told);
  const std::string batch("\4\0\0\0\0\0\4\1\0\5\1\0\0\0\0\0", 16), step("\4\5\0", 3);
  write(folder / "capi" / "batch", session + prompt + batch + step + told + step + told + step);
}

// The tests' models of all families, both as GGUF and as a folder, without their numbers and their tokenizers.
void write_model_configs(const fs::path& folder) {
  for (const fs::directory_entry& family : fs::directory_iterator(weft::source_folder() / "tests/model/golden"))
    for (const char* name : {"model.gguf", ""}) {
      if (!fs::exists(family.path() / (*name ? name : "config.json"))) continue;  // some have one form only
      const weft::ModelFile file = weft::open_model(family.path() / name);
      weft::JsonValue metadata = weft::JsonValue::object(), tensors = weft::JsonValue::object();
      for (const weft::JsonValue::Member& member : file.metadata.members())
        if (!member.name.starts_with("tokenizer.")) metadata[member.name] = member.value;
      for (const weft::TensorView& tensor : file.tensors) {
        weft::JsonValue description = weft::JsonValue::array();
        description.push_back(weft::ggml_type(tensor.dtype));
        for (const uint64_t length : tensor.shape) description.push_back(length);
        tensors[tensor.name] = std::move(description);
      }
      const bool gguf = file.kind == weft::ModelFile::Kind::gguf;
      write(folder / "model_config" / (family.path().filename().string() + (gguf ? "-gguf" : "")),
            weft::JsonValue({{"gguf", gguf}, {"metadata", metadata}, {"tensors", tensors}}).dump());
    }
}

// Saved by a device, if there is one.
void write_sessions(const fs::path& folder, bool hybrid) {
  weft_model* model = nullptr;
  setenv("WEFT_CACHE_DIR", weft::test::scratch_folder().c_str(), 1);
  weft_error error = {};
  if (weft_model_load(weft::test::make_device_model(hybrid).c_str(), nullptr, &model, &error) != WEFT_OK) {
    std::fprintf(stderr, "no seeds of sessions: %s\n", error.sentence);
    return;
  }
  const weft_session_options options = weft::test::session_options(weft::test::kFuzzContext);
  weft_session* session = nullptr;
  const uint32_t ids[] = {5, 9, 2, 7, 11}, biased[] = {4, 7};
  const float biases[] = {1, -2};
  weft_request request = weft_request_default();
  request.bias_ids = biased;
  request.biases = biases;
  request.bias_count = 2;
  const weft_generate_options three = weft::test::generate_options(3);
  weft_session_create(model, &options, &session, nullptr);
  for (const char* name : {"prompt", "answer", "biased"}) {
    if (name == std::string("biased")) weft_session_set_request(session, &request, nullptr);
    weft_session_prompt(session, ids, std::size(ids), nullptr);
    if (name != std::string("prompt")) weft_session_generate(session, &three, nullptr, nullptr);
    const weft::test::MemoryFile file;
    if (weft_session_save_fd(session, file.descriptor(), name, &error) != WEFT_OK) {
      std::fprintf(stderr, "no seed: %s\n", error.sentence);
      continue;
    }
    const auto [header, rest] = weft::test::unseal_session(file.content());
    const std::string seed = name + std::string(hybrid ? "-hybrid" : "");
    write(folder / "session" / seed, zero_between(header, rest));
    write(folder / "session" / (seed + "-whole"), file.content());
  }
  weft_session_free(session);
  weft_model_free(model);
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
  write_quantised_folders(folder);
  write(
      folder / "json_config" / "config",
      R"({"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-5, "tie": true, "scaling": null, "ids": [1, -2], "s": "\u00e9"})");
  write_lists(folder);
  write_cache_files(folder);
  write_whisper_files(folder);
  write_sentence_files(folder);
  write_recordings(folder);
  write_requests(folder);
  write_programs(folder);
  write_model_configs(folder);
  write_sessions(folder, false);
  write_sessions(folder, true);
  write(folder / "json_config" / "index",
        R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x"}})");
}
