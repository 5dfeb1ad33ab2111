// Complete models: folders, shards, files other programs wrote, and the models in ../shared.
#include "format/model_file.h"

#include <algorithm>

#include "format/gguf_writer.h"
#include "format/json.h"
#include "format_support.h"
#include "support/json_value.h"
#include "support/source_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path golden(const std::string& name) { return source_folder() / "tests/unit/golden/format" / name; }

// One F32 tensor of one element.
std::string one_tensor(const std::string& name, float value) {
  return safetensors_file("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", le(value));
}

// Every tensor's type, shape and values, bit for bit.
void expect_golden(const std::vector<TensorView>& tensors, const std::string& expected_file) {
  const json expected = parse_json(MappedFile(golden(expected_file)).text(), expected_file);
  ASSERT_EQ(tensors.size(), expected.size());
  for (const TensorView& tensor : tensors) {
    const json& entry = expected.at(tensor.name);
    EXPECT_EQ(name(tensor.dtype), entry["dtype"].get<std::string>()) << tensor.name;
    EXPECT_EQ(tensor.shape, entry["shape"].get<std::vector<uint64_t>>()) << tensor.name;
    const auto values = floats_of(tensor);
    const auto bits = entry["bits"].get<std::vector<uint32_t>>();
    ASSERT_EQ(values.size(), bits.size()) << tensor.name;
    for (size_t i = 0; i < bits.size(); ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), bits[i]) << tensor.name << " " << i;
  }
}

TEST(Model, ReadsWhatTheGgufPackageWrote) {
  const ModelFile model = open_model(golden("gguf-package.gguf"));
  EXPECT_EQ(model.kind, ModelFile::Kind::gguf);
  expect_golden(model.tensors, "gguf-package.json");
  json metadata = model.metadata;
  EXPECT_EQ(metadata.at("t.f32").get<double>(), static_cast<double>(0.1f));
  metadata.erase("t.f32");
  EXPECT_EQ(metadata, json::parse(R"({
      "general.architecture": "llama", "llama.block_count": 2, "general.alignment": 64, "t.u8": 255, "t.i8": -128, "t.u16": 65535,
      "t.i16": -32768, "t.u32": 4294967295, "t.i32": -2147483648, "t.u64": 18446744073709551615, "t.i64": -9223372036854775808,
      "t.f64": 0.1, "t.bool": true, "t.string": "Kettfäden ▁", "t.strings": ["<unk>", "", "▁warp"], "t.ints": [1, -2, 3],
      "t.floats": [0.5, -1.5]})"));
}

TEST(Model, ReadsWhatTheSafetensorsPackageWrote) {
  const TestFolder folder;
  folder.write("config.json", "{}");
  fs::copy_file(golden("safetensors-package.safetensors"), folder / "model.safetensors");
  expect_golden(open_model(folder.path()).tensors, "safetensors-package.json");
}

TEST(Model, FindsTensorsByNameAfterAMove) {
  ModelFile first = open_model(golden("gguf-package.gguf"));
  const ModelFile model = std::move(first);
  for (const TensorView& tensor : model.tensors) EXPECT_EQ(model.find(tensor.name), &tensor);
  EXPECT_EQ(model.find("absent"), nullptr);
  EXPECT_EQ(model.find("brain")->dtype, DType::bf16);
  EXPECT_EQ(floats_of(*model.find("brain")).size(), 36u);
}

TEST(Model, ForgetsItsTokenizerAndNothingElse) {
  ModelFile model = open_model(golden("gguf-package.gguf"));
  const JsonValue others = model.metadata;
  model.metadata["tokenizer.ggml.tokens"] = {"a", "b"};
  model.metadata["tokenizer.chat_template"] = "{{ messages }}";
  model.tokenizer = model.tokenizer_config = {{"model", 1}};
  model.forget_tokenizer();
  EXPECT_EQ(model.metadata, others);
  EXPECT_TRUE(model.tokenizer.is_null());
  EXPECT_TRUE(model.tokenizer_config.is_null());
  EXPECT_EQ(model.tensors.size(), 5u);
}

TEST(Model, TheContentDecidesNotTheName) {
  const TestFolder folder;
  fs::copy_file(golden("gguf-package.gguf"), folder / "model.bin");
  EXPECT_EQ(open_model(folder / "model.bin").tensors.size(), 5u);
  folder.write("weights.gguf", "PK\3\4....");
  expect_error(Code::unsupported, {"weights.gguf", "begins with \"PK\\x03\\x04\"", "pass its folder"},
               [&] { open_model(folder / "weights.gguf"); });
  expect_error(Code::unsupported, {"weights.gguf"},
               [&] { open_model(folder.path()); });  // it is the folder's only .gguf
}

TEST(Model, OpensAFoldersOnlyGguf) {
  const TestFolder folder;
  expect_error(Code::not_found, {folder.path().string(), "neither a config.json nor a .gguf"},
               [&] { open_model(folder.path()); });
  fs::copy_file(golden("gguf-package.gguf"), folder / "one.gguf");
  EXPECT_EQ(open_model(folder.path()).path, folder / "one.gguf");
  folder.write("config.json", "{}");  // as beside published GGUF files
  EXPECT_EQ(open_model(folder.path()).path, folder / "one.gguf");
  fs::copy_file(golden("gguf-package.gguf"), folder / "two.gguf");
  expect_error(Code::invalid_argument, {"2 .gguf files", "one.gguf", "two.gguf"}, [&] { open_model(folder.path()); });
}

// A part of a model in several files; each has a tensor of one element.
void write_part(const TestFolder& folder, const std::string& name, uint32_t number, uint32_t count, int32_t tensors,
                const std::string& tensor) {
  GgufWriter w;
  if (number == 0) w.key("general.architecture", "llama");
  w.key("split.no", kGgufUint16, le(static_cast<uint16_t>(number)));
  w.key("split.count", kGgufUint16, le(static_cast<uint16_t>(count)));
  w.key("split.tensors.count", kGgufInt32, le(tensors));
  w.tensor(tensor, {1}, 0, 4);
  folder.write(name, w.file_of_zeros());
}

TEST(Model, OpensGgufInSeveralFilesFromAnyPart) {
  const TestFolder folder;
  const std::vector<std::string> names = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
  for (uint32_t i = 0; i < 3; ++i) write_part(folder, names[i], i, 3, 3, "t" + std::to_string(i));
  for (const std::string& name : {names[0], names[1], names[2], std::string()}) {
    const ModelFile model = open_model(folder / name);
    EXPECT_EQ(model.path, folder / names[0]);
    EXPECT_EQ(model.metadata["general.architecture"], "llama");
    ASSERT_EQ(model.tensors.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(model.tensors[i].name, "t" + std::to_string(i));
    EXPECT_EQ(model.files.size(), 3u);
  }
  fs::current_path(folder.path());
  EXPECT_EQ(open_model("m-00002-of-00003.gguf").tensors.size(), 3u);
  fs::current_path("/");
}

TEST(Model, RefusesGgufInSeveralFilesThatDoNotFit) {
  const TestFolder folder;
  const auto open = [&] { open_model(folder / "m-00001-of-00002.gguf"); };
  write_part(folder, "m-00001-of-00002.gguf", 0, 2, 2, "a");
  expect_error(Code::not_found, {"m-00002-of-00002.gguf", "part 2 of the model's 2 files is missing"}, open);
  expect_error(Code::not_found, {"m-00002-of-00002.gguf"}, [&] { open_model(folder.path()); });
  write_part(folder, "m-00002-of-00002.gguf", 0, 2, 2, "b");
  expect_error(Code::bad_file, {"m-00002-of-00002.gguf", "it is part 1 of 2, not part 2 of 2"}, open);
  write_part(folder, "m-00002-of-00002.gguf", 1, 2, 5, "b");
  expect_error(Code::bad_file, {"m-00002-of-00002.gguf", "of the same model"}, open);
  write_part(folder, "m-00002-of-00002.gguf", 1, 2, 2, "a");
  expect_error(Code::bad_file, {"tensor a is there twice"}, open);
  write_part(folder, "m-00001-of-00002.gguf", 0, 2, 3, "a");
  write_part(folder, "m-00002-of-00002.gguf", 1, 2, 3, "b");
  expect_error(Code::bad_file, {"have 2 tensors", "there are 3"}, open);
  folder.write("m-00002-of-00002.gguf", "GGUF");
  expect_error(Code::bad_file, {"m-00002-of-00002.gguf"}, open);
  write_part(folder, "other.gguf", 1, 2, 2, "a");
  expect_error(Code::bad_file, {"other.gguf", "part 2 of a model in 2 files", "end with -00002-of-00002.gguf"},
               [&] { open_model(folder / "other.gguf"); });
  write_part(folder, "many.gguf", 0, 60000, 2, "a");
  expect_error(Code::bad_file, {"60000 parts", "at most 1000"}, [&] { open_model(folder / "many.gguf"); });
  write_part(folder, "late.gguf", 7, 3, 2, "a");
  expect_error(Code::bad_file, {"part 7", "of only 3"}, [&] { open_model(folder / "late.gguf"); });
  write_part(folder, "m-00001-of-00002.gguf", 0, 2, 2, "a");
  const MappedFile whole(folder / "m-00001-of-00002.gguf");
  expect_error(Code::bad_file, {"bytes of memory", "a model in 2 files"},
               [&] { open_model(MappedFile(whole.bytes())); });
}

TEST(Model, ReadsTheFilesOfSentenceTransformers) {
  const TestFolder folder;
  folder.write("config.json", "{}");
  fs::copy_file(golden("safetensors-package.safetensors"), folder / "model.safetensors");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 256})");
  folder.write("config_sentence_transformers.json", R"({"prompts": {}})");
  folder.write("modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                                   {"type": "sentence_transformers.models.Pooling", "path": "7_Pool"}])");
  fs::create_directory(folder / "7_Pool");
  folder.write("7_Pool/config.json", R"({"pooling_mode_cls_token": true})");
  const ModelFile model = open_model(folder.path());
  EXPECT_EQ(model.sentence_transformer["max_seq_length"], 256);
  EXPECT_EQ(model.sentence_modules.size(), 2u);
  EXPECT_TRUE(model.sentence_prompts.contains("prompts"));
  EXPECT_EQ(model.pooling["pooling_mode_cls_token"], true);
  for (const char* path : {"..", "a/b", "", "."}) {
    folder.write("modules.json", R"([{"type": "x.Pooling", "path": ")" + std::string(path) + "\"}]");
    expect_error(Code::bad_file, {"modules.json", "not a name in this one"}, [&] { open_model(folder.path()); });
  }
  for (const char* wrong : {"{}", "[1]", R"([{"type": 1, "path": ""}])", R"([{"type": "x"}])"}) {
    folder.write("modules.json", wrong);
    expect_error(Code::bad_file, {"modules.json"}, [&] { open_model(folder.path()); });
  }
}

TEST(Model, NamesWhatIsNotThere) {
  const TestFolder folder;
  expect_error(Code::not_found, {"absent.gguf"}, [&] { open_model(folder / "absent.gguf"); });
  folder.write("model.safetensors", one_tensor("x", 3));
  expect_error(Code::not_found, {"config.json"}, [&] { open_model(folder.path()); });
  fs::remove(folder / "model.safetensors");
  folder.write("config.json", "{}");
  expect_error(Code::not_found, {"neither model.safetensors nor model.safetensors.index.json"},
               [&] { open_model(folder.path()); });
}

TEST(Model, ReadsTheJsonFilesOfAFolder) {
  const TestFolder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write("model.safetensors", one_tensor("x", 3));
  ModelFile model = open_model(folder.path());
  EXPECT_EQ(model.kind, ModelFile::Kind::huggingface);
  EXPECT_EQ(model.metadata, JsonValue({{"model_type", "llama"}}));
  EXPECT_TRUE(model.tokenizer.is_null() && model.tokenizer_config.is_null() && model.generation_config.is_null());
  EXPECT_EQ(floats_of(*model.find("x")), std::vector<float>{3});
  folder.write("tokenizer.json", R"({"version": "1.0"})");
  folder.write("tokenizer_config.json", R"({"chat_template": "old", "bos_token": "<s>"})");
  folder.write("generation_config.json", R"({"eos_token_id": 2})");
  model = open_model(folder.path());
  EXPECT_EQ(model.tokenizer["version"], "1.0");
  EXPECT_EQ(model.tokenizer_config["chat_template"], "old");
  EXPECT_EQ(model.generation_config["eos_token_id"], 2);
}

TEST(Model, MergesTheChatTemplateFile) {
  const TestFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", one_tensor("x", 3));
  folder.write("chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(open_model(folder.path()).tokenizer_config["chat_template"], "{{ messages }}");
  folder.write("tokenizer_config.json", R"({"chat_template": "old", "bos_token": "<s>"})");
  const ModelFile model = open_model(folder.path());
  EXPECT_EQ(model.tokenizer_config["chat_template"], "{{ messages }}");
  EXPECT_EQ(model.tokenizer_config["bos_token"], "<s>");
  folder.write("chat_template.jinja", std::string((1u << 20) + 1, ' '));
  expect_error(Code::bad_file, {"chat_template.jinja", "1048577 bytes", "1048576"}, [&] { open_model(folder.path()); });
}

TEST(Model, NamesTheJsonFileThatIsWrong) {
  const TestFolder folder;
  folder.write("model.safetensors", one_tensor("x", 3));
  folder.write("config.json", "{\n\"a\": }");
  expect_error(Code::bad_file, {"config.json: line 2, byte 8"}, [&] { open_model(folder.path()); });
  folder.write("config.json", "[]");
  expect_error(Code::bad_file, {"config.json: ", "no JSON object"}, [&] { open_model(folder.path()); });
  folder.write("config.json", "{}");
  folder.write("tokenizer.json", "");
  expect_error(Code::bad_file, {"tokenizer.json: line 1"}, [&] { open_model(folder.path()); });
}

// A folder of two shards with this index.
struct ShardedFolder : TestFolder {
  explicit ShardedFolder(const std::string& weight_map) {
    write("config.json", "{}");
    write("s1.safetensors", one_tensor("a", 1));
    write("s2.safetensors", one_tensor("b", 2));
    write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": " + weight_map + "}");
  }
};

TEST(Model, ReadsShards) {
  const ShardedFolder folder(R"({"b": "s2.safetensors", "a": "s1.safetensors"})");
  const ModelFile model = open_model(folder.path());
  EXPECT_EQ(model.files.size(), 2u);
  EXPECT_EQ(floats_of(*model.find("a")), std::vector<float>{1});
  EXPECT_EQ(floats_of(*model.find("b")), std::vector<float>{2});
  folder.write("model.safetensors", one_tensor("c", 3));  // preferred, as Transformers does
  EXPECT_NE(open_model(folder.path()).find("c"), nullptr);
}

TEST(Model, IndexesMayListWhatHoldsNoWeights) {
  const ShardedFolder folder(R"({"b": "s2.safetensors", "a": "s1.safetensors", "h.0.attention.bias": "s1.safetensors",
                                 "embeddings.position_ids": "s2.safetensors"})");
  EXPECT_EQ(open_model(folder.path()).tensors.size(), 2u);
}

void refuse_shards(const std::string& weight_map, Code code, const std::vector<std::string>& fragments) {
  const ShardedFolder folder(weight_map);
  expect_error(code, fragments, [&] { open_model(folder.path()); });
}

TEST(Model, RefusesShardsThatDisagreeWithTheIndex) {
  const std::string index = "model.safetensors.index.json: ";
  refuse_shards(R"({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"})", Code::bad_file,
                {index, "tensor c is in s2.safetensors, but it is not"});
  refuse_shards(R"({"a": "s2.safetensors", "b": "s2.safetensors"})", Code::bad_file,
                {index, "tensor a is in s2.safetensors, but it is not"});
  refuse_shards(R"({"b": "s1.safetensors", "a": "s2.safetensors"})", Code::bad_file,
                {index, "tensor a is in s1.safetensors, but the index says it is in s2.safetensors"});
  refuse_shards(R"({"x": "s1.safetensors"})", Code::bad_file,
                {index, "tensor a is in s1.safetensors, but the index does not list it"});
  refuse_shards(R"({"a": "absent.safetensors"})", Code::not_found, {"absent.safetensors"});
  refuse_shards(R"({"a": 7})", Code::bad_file, {index, "the shard of tensor a is no string"});
  refuse_shards("[]", Code::bad_file, {index, "weight_map"});
}

TEST(Model, RefusesShardsOutsideTheFolder) {
  for (const std::string shard :
       {"../s1.safetensors", "/etc/passwd", "..", ".", "", "sub/s1.safetensors", "s1.safetensors\\u0000", "a\\\\b"}) {
    refuse_shards("{\"a\": \"" + shard + "\"}", Code::bad_file,
                  {"the shard of tensor a", "not a file name in this folder"});
  }
}

TEST(Model, RefusesAGgufWhoseNameIsQuotedInItsError) {
  const TestFolder folder;
  GgufWriter w;
  w.tensor("x", {1}, 15, 4);
  folder.write("m.gguf", w.file_of_zeros());
  expect_error(Code::unsupported, {(folder / "m.gguf").string() + ": not supported yet: Q8_K in tensor x"},
               [&] { open_model(folder / "m.gguf"); });
}

TEST(SharedModels, ReadsStories260K) {
  const fs::path shared = shared_folder();
  if (shared.empty()) GTEST_SKIP() << "there is no ../shared here";
  const ModelFile model = open_model(shared / "models/stories260K/tinyllamas-stories-260k-f32.gguf");
  EXPECT_EQ(model.metadata["llama.feed_forward_length"], 172);
  EXPECT_EQ(model.metadata["tokenizer.ggml.tokens"].size(), 512u);
  EXPECT_EQ(model.metadata["tokenizer.ggml.tokens"][259], "▁t");
  EXPECT_EQ(model.tensors.size(), 48u);
  EXPECT_EQ(model.find("blk.0.ffn_down.weight")->shape, (std::vector<uint64_t>{64, 172}));
  const auto &table = *model.find("token_embd.weight"), &output = *model.find("output.weight");
  EXPECT_EQ(table.shape, (std::vector<uint64_t>{512, 64}));
  EXPECT_TRUE(std::equal(table.bytes.begin(), table.bytes.end(), output.bytes.begin(), output.bytes.end()));
}

TEST(SharedModels, ReadsTinystories656K) {
  const fs::path shared = shared_folder();
  if (shared.empty()) GTEST_SKIP() << "there is no ../shared here";
  const ModelFile model = open_model(shared / "models/tinystories-656K");
  EXPECT_EQ(model.metadata["hidden_size"], 128);
  EXPECT_EQ(model.tokenizer["model"]["type"], "BPE");
  EXPECT_EQ(model.tokenizer_config["bos_token"], "<|start_story|>");
  EXPECT_EQ(model.generation_config["eos_token_id"], 2);
  EXPECT_EQ(model.find("lm_head.weight")->shape, (std::vector<uint64_t>{2048, 128}));
  EXPECT_EQ(model.find("model.embed_tokens.weight"), nullptr);
}

}  // namespace
}  // namespace weft
