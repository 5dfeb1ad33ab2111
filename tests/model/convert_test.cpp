// Converting models: the contents of the new file, which appears whole or not. No device needed.
#include "convert/convert.h"

#include <algorithm>
#include <string_view>

#include "convert/huggingface.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"
#include "format/safetensors.h"
#include "format_support.h"
#include "model/config.h"
#include "support/json_value.h"
#include "support/model_maker.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kSilent = [](float) {};

std::string text_of(const fs::path& path) { return std::string(MappedFile(path).text()); }
std::string bytes_of(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

ModelFile converted(const fs::path& in, const fs::path& out, FileType type) {
  convert(in, out, {.type = type, .vocab_type = type, .replace = true}, kSilent);
  return open_model(out);
}

LlamaShape untied_shape() {
  LlamaShape shape;
  shape.tied = false;
  shape.ffn = 172;  // no multiple of 32
  return shape;
}

TEST(Convert, WritesATableThatIsStoredTwiceOnce) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", {}, {.type = DType::q8_0, .second_table = DType::f16});
  const ModelFile before = open_model(folder / "m.gguf"),
                  after = converted(before.path, folder / "out.gguf", FileType::f16);
  EXPECT_EQ(after.tensors.size() + 1, before.tensors.size());
  EXPECT_EQ(after.find("output.weight"), nullptr);
  ASSERT_TRUE(after.find("token_embd.weight"));
  EXPECT_TRUE(bytes_of(*after.find("token_embd.weight")) == bytes_of(*before.find("output.weight")));  // the finer one
}

TEST(Convert, KeepsTheBytesWhereNothingIsRounded) {
  for (const auto& [dtype, format, type] :
       {std::tuple(DType::q8_0, FileType::q8_0, 7), std::tuple(DType::f16, FileType::f16, 1),
        std::tuple(DType::q4_1, FileType::q4_1, 3)}) {
    const TestFolder folder;
    make_gguf(folder / "m.gguf", untied_shape(), {.type = dtype, .seed = 7, .chat_template = "{{ messages }}"});
    const ModelFile before = open_model(folder / "m.gguf"), after = converted(before.path, folder / "out.gguf", format);
    ASSERT_EQ(after.tensors.size(), before.tensors.size());
    for (size_t i = 0; i < before.tensors.size(); ++i) {
      const TensorView &a = before.tensors[i], &b = after.tensors[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.dtype, b.dtype) << a.name;
      EXPECT_EQ(a.shape, b.shape) << a.name;
      EXPECT_TRUE(bytes_of(a) == bytes_of(b)) << a.name;
    }
    json expected = before.metadata;
    expected.erase("general.alignment");
    expected["general.file_type"] = type;
    if (format != FileType::f16) expected["general.quantization_version"] = 2;
    EXPECT_EQ(json(after.metadata), expected);
    // A second conversion changes nothing.
    converted(after.path, folder / "again.gguf", format);
    EXPECT_TRUE(text_of(folder / "again.gguf") == text_of(folder / "out.gguf"));
  }
}

// The model maker writes both formats by itself: the rows of queries and keys must change places as it has them.
TEST(Convert, AFolderBecomesTheGgufFileOfTheSameModel) {
  for (const DType dtype : {DType::f16, DType::f32, DType::bf16})
    for (const bool tied : {true, false}) {
      const TestFolder folder;
      LlamaShape shape = untied_shape();
      shape.tied = tied;
      shape.head_dim = 32;
      make_huggingface(folder / "hf", shape, {.type = dtype, .seed = 7, .chat_template = "{{ messages }}"});
      make_gguf(folder / "m.gguf", shape, {.type = dtype, .seed = 7, .chat_template = "{{ messages }}"});
      for (const FileType format : {FileType::f16, FileType::q8_0, FileType::q4_1}) {
        const ModelFile from_folder = converted(folder / "hf", folder / "a.gguf", format);
        const ModelFile from_file = converted(folder / "m.gguf", folder / "b.gguf", format);
        ASSERT_EQ(from_folder.tensors.size(), from_file.tensors.size());
        for (const TensorView& tensor : from_file.tensors) {
          const TensorView* other = from_folder.find(tensor.name);
          ASSERT_NE(other, nullptr) << tensor.name;
          EXPECT_EQ(other->dtype, tensor.dtype) << tensor.name;
          EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
          EXPECT_TRUE(bytes_of(*other) == bytes_of(tensor)) << tensor.name << " from " << name(dtype);
        }
        for (const auto& [key, value] : from_file.metadata.members()) {
          if (key == "tokenizer.ggml.scores" || key == "general.name" || key == "general.alignment") continue;
          EXPECT_TRUE(from_folder.metadata[key] == value) << key;
        }
        const auto a = Tokenizer::from_gguf(from_folder.metadata, "a"),
                   b = Tokenizer::from_gguf(from_file.metadata, "b");
        EXPECT_EQ(a.fingerprint(), b.fingerprint());
        for (const char* text : {"hello world", "  a  bc\n", "abcabc zzz \xc3\xa9"})
          EXPECT_EQ(a.encode(text, Tokenizer::Special::plain), b.encode(text, Tokenizer::Special::plain)) << text;
      }
    }
}

// The folders of tests/tools/family_goldens.py have a GGUF file beside them, written with llama.cpp's own names and
// rules by the package gguf. They lack a tokenizer, and get one.
TEST(Convert, FoldersOfEveryFamilyBecomeWhatLlamaCppMakesOfThem) {
  uint32_t families = 0;
  for (const auto& entry : fs::directory_iterator(source_folder() / "tests/model/golden")) {
    if (!fs::exists(entry.path() / "model.gguf")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const TestFolder folder;
    LlamaShape shape;
    shape.vocab = 64;
    make_huggingface(folder / "hf", shape, {.type = DType::f16});
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(entry.path() / name, folder / "hf" / name, fs::copy_options::overwrite_existing);
    if (entry.path().filename().string().starts_with("gpt-oss")) {
      expect_error(Code::unsupported, {"writing a folder of the model type 'gpt_oss'"},
                   [&] { converted(folder / "hf", folder / "out.gguf", FileType::f16); });
      continue;
    }
    const ModelFile got = converted(folder / "hf", folder / "out.gguf", FileType::f16);
    const ModelFile want = open_model(entry.path() / "model.gguf");
    EXPECT_EQ(got.tensors.size(), want.tensors.size());
    for (const TensorView& tensor : want.tensors) {
      const TensorView* other = got.find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
      const std::vector<float> a = floats_of(*other), b = floats_of(tensor);
      ASSERT_EQ(a.size(), b.size()) << tensor.name;
      // The divisors of RoPE's frequencies and -exp(A) are computed in two ways; everything else is copied.
      const bool computed = tensor.name.starts_with("rope_") || tensor.name.ends_with("ssm_a");
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], computed ? 1e-6 * std::abs(b[i]) : 0) << tensor.name << " " << i;
    }
    for (const auto& [key, value] : want.metadata.members()) {
      ASSERT_TRUE(got.metadata.contains(key)) << key;
      if (value.is_number_float())
        EXPECT_NEAR(got.metadata[key].get<double>(), value.get<double>(), 1e-6 * value.get<double>()) << key;
      else
        EXPECT_EQ(got.metadata[key], value) << key;
    }
    if (got.metadata.contains("mpt.context_length")) {  // llama.cpp has no value of its own
      EXPECT_EQ(got.metadata["mpt.attention.max_alibi_bias"].get<double>(), 8);
    }
    ++families;
  }
  EXPECT_GE(families, 20u);
}

// The pooling and the token after a text, without which the last one's state is another.
TEST(Convert, FoldersThatEmbedStayOnes) {
  const fs::path goldens = source_folder() / "tests/model/golden_sentences";
  const TestFolder folder;
  const ModelFile before = open_model(goldens / "qwen3"),
                  after = converted(before.path, folder / "out.gguf", FileType::f16);
  EXPECT_EQ(after.metadata["qwen3.pooling_type"], 3);
  EXPECT_TRUE(read_config(after).sentences.given);
  EXPECT_EQ(read_config(after).sentences.pooling, Pooling::last);
  const auto end =
      Tokenizer::from_hf(before.tokenizer, before.tokenizer_config, before.generation_config, "a").input_end();
  EXPECT_TRUE(end.has_value());
  EXPECT_EQ(Tokenizer::from_gguf(after.metadata, "b").input_end(), end);
  expect_error(Code::unsupported, {"dense layers behind the pooling, and rerankers"},
               [&] { converted(goldens / "qwen3-reranker", folder / "none.gguf", FileType::f16); });
}

// The text model of one that sees pictures, with the keys that pictures need.
TEST(Convert, AFolderOfQwen3VlBecomesItsTextModel) {
  const TestFolder folder;
  const fs::path model = source_folder() / "tests/model/golden_images/qwen3-vl";
  const ModelFile got = converted(model, folder / "out.gguf", FileType::f16), want = open_model(model / "text.gguf");
  EXPECT_EQ(got.tensors.size(), want.tensors.size());
  for (const auto& [key, value] : want.metadata.members()) {
    if (!key.starts_with("qwen3vl.") || value.is_number_float()) continue;
    EXPECT_EQ(got.metadata[key], value) << key;
  }
  const Config config = read_config(got), same = read_config(want);
  EXPECT_EQ(config.ropes[0].axes, same.ropes[0].axes);
  EXPECT_EQ(config.grid_token, same.grid_token);
  EXPECT_EQ(config.grid_token, 263u);
}

// Small matrices that llama.cpp reads as floats, and one that it transposes.
TEST(Convert, MatricesThatLlamaCppNeedsAsFloatsStayFloats) {
  const TestFolder folder;
  const std::pair<const char*, DType> wanted[] = {{"blk.0.attn_q_norm.weight", DType::f32},
                                                  {"v.position_embd.weight", DType::f32},
                                                  {"altup_proj.weight", DType::f32},
                                                  {"blk.0.laurel_l.weight", DType::f32},
                                                  {"per_layer_model_proj.weight", DType::f32},
                                                  {"blk.0.time_mix_w1.weight", DType::f32},
                                                  {"blk.0.time_mix_decay_w2.weight", DType::f32},
                                                  {"mm.input_projection.weight", DType::f16},
                                                  {"blk.0.time_mix_key.weight", DType::q8_0}};
  GgufWriter writer;
  add_keys(writer, {{"general.architecture", "any"}});
  for (const auto& [name, type] : wanted) writer.tensor(name, {4, 32}, ggml_type(DType::f32), 4 * 32 * sizeof(float));
  std::ofstream(folder / "in.gguf", std::ios::binary) << writer.file_of_zeros();
  const ModelFile got = converted(folder / "in.gguf", folder / "out.gguf", FileType::q8_0);
  for (const auto& [name, type] : wanted) EXPECT_EQ(got.find(name)->dtype, type) << name;
}

TEST(Convert, FourBitTypesStayWhatTheyAre) {
  for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q4_k, DType::q1_0, DType::q2_0}) {
    const TestFolder folder;
    LlamaShape shape;
    shape.width = 256;
    shape.ffn = 512;
    make_gguf(folder / "m.gguf", shape, {.type = dtype});
    const auto report = convert(folder / "m.gguf", folder / "out.gguf", {FileType::q4_1, FileType::q4_1}, kSilent);
    const ModelFile before = open_model(folder / "m.gguf"), after = open_model(folder / "out.gguf");
    for (const ConvertedTensor& tensor : report) {
      if (tensor.from == std::string_view("F32")) continue;
      EXPECT_EQ(tensor.to, DType::q4_1);
      const auto want = floats_of(*before.find(tensor.name)), got = floats_of(*after.find(tensor.name));
      if (dtype != DType::q4_k) {
        EXPECT_EQ(got, want) << name(dtype) << " " << tensor.name;
      }
      EXPECT_LE(tensor.rounding.relative(), dtype == DType::q4_k ? 2e-3 : 0) << name(dtype) << " " << tensor.name;
    }
  }
}

TEST(Convert, TypesAreWhatWasAskedForAndWhatFits) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", untied_shape(), {.type = DType::f32});
  const auto report =
      convert(folder / "m.gguf", folder / "out.gguf", {.type = FileType::f16, .vocab_type = FileType::q8_0}, kSilent);
  const ModelFile model = open_model(folder / "out.gguf");
  ASSERT_EQ(report.size(), model.tensors.size());
  for (const ConvertedTensor& tensor : report) {
    const bool table = tensor.name == "token_embd.weight" || tensor.name == "output.weight";
    const bool norm = tensor.name.find("norm") != std::string::npos;
    EXPECT_STREQ(tensor.from, "F32");
    EXPECT_EQ(tensor.to, norm ? DType::f32 : table ? DType::q8_0 : DType::f16) << tensor.name;
    EXPECT_EQ(model.find(tensor.name)->dtype, tensor.to);
    EXPECT_EQ(model.find(tensor.name)->bytes.size(), tensor.bytes);
    EXPECT_EQ(tensor.rounding.largest_error == 0, norm) << tensor.name;
    if (norm) continue;
    // The stated error is the largest difference between the files.
    const auto before = floats_of(*open_model(folder / "m.gguf").find(tensor.name)),
               after = floats_of(*model.find(tensor.name));
    double largest = 0;
    for (size_t i = 0; i < before.size(); ++i) largest = std::max<double>(largest, std::abs(after[i] - before[i]));
    EXPECT_EQ(tensor.rounding.largest_error, largest) << tensor.name;
  }
  const ModelFile q8 = converted(folder / "m.gguf", folder / "q8.gguf", FileType::q8_0);
  EXPECT_EQ(q8.find("blk.0.ffn_up.weight")->dtype, DType::q8_0);
  EXPECT_EQ(q8.find("blk.0.ffn_down.weight")->dtype, DType::f16) << "its rows have 172 elements";
}

TEST(Convert, EveryTypeOfGgufIsRead) {
  for (const DType dtype : kDTypes) {
    const TestFolder folder;
    LlamaShape shape;
    shape.width = 256;
    make_gguf(folder / "m.gguf", shape, {.type = dtype});
    const ModelFile before = open_model(folder / "m.gguf"),
                    after = converted(before.path, folder / "out.gguf", FileType::f16);
    auto expected = floats_of(*before.find("blk.0.attn_q.weight"));
    for (float& value : expected) value = half_to_float(float_to_half(value));
    EXPECT_EQ(floats_of(*after.find("blk.0.attn_q.weight")), expected) << name(dtype);
  }
}

// A file with every kind of key, of any version; and tensors that llama.cpp wants as floats.
TEST(Convert, CarriesKeysOfEveryVersionOver) {
  for (const uint32_t version : {1u, 2u, 3u}) {
    const TestFolder folder;
    GgufWriter w(version, 64);
    w.key("general.alignment", uint32_t{64});
    w.key("general.architecture", "other");
    w.key("general.file_type", uint32_t{15});
    w.key("a.u8", kGgufUint8, le<uint8_t>(255));
    w.key("a.i16", kGgufInt16, le<int16_t>(-32768));
    w.key("a.u64", kGgufUint64, le<uint64_t>(UINT64_MAX));
    w.key("a.f32", 0.1f);
    w.key("a.f64", kGgufFloat64, le(0.1));
    w.key("a.bool", true);
    w.key("a.text", "\xff\"x");
    w.key("a.texts", std::vector<std::string>{"x", "", "yz"});
    w.key("a.ints", std::vector<int32_t>{1, -2});
    const std::string inner = le<uint32_t>(kGgufString) + w.length(1) + w.string("deep");
    w.key("a.nested", kGgufArray, le<uint32_t>(kGgufArray) + w.length(2) + inner + inner);
    w.tensor("blk.0.ffn_gate_inp.weight", {2, 32}, ggml_type(DType::f16), 128);
    w.tensor("blk.0.ffn_up_exps.weight", {3, 2, 64}, ggml_type(DType::f32), 1536);
    w.tensor("blk.0.bias", {5}, ggml_type(DType::bf16), 10);
    w.tensor("odd.scale", {2, 32}, ggml_type(DType::f32), 256);
    folder.write("m.gguf", w.file_of_zeros());
    json expected = open_model(folder / "m.gguf").metadata;
    const ModelFile after = converted(folder / "m.gguf", folder / "out.gguf", FileType::q8_0);
    expected.erase("general.alignment");
    expected["general.file_type"] = 7;
    expected["general.quantization_version"] = 2;
    EXPECT_EQ(json(after.metadata), expected) << "version " << version;
    const auto out = parse_gguf(after.files[0].bytes(), "out");
    EXPECT_EQ(out.version, 3u);
    const auto in = parse_gguf(MappedFile(folder / "m.gguf").bytes(), "in");
    for (const GgufKey& key : out.keys) {
      const auto same =
          std::find_if(in.keys.begin(), in.keys.end(), [&](const GgufKey& k) { return k.name == key.name; });
      if (same != in.keys.end()) {
        EXPECT_EQ(same->type, key.type) << key.name;
      }
    }
    EXPECT_EQ(after.find("blk.0.ffn_gate_inp.weight")->dtype, DType::f32);
    EXPECT_EQ(after.find("blk.0.ffn_up_exps.weight")->dtype, DType::q8_0);
    EXPECT_EQ(after.find("blk.0.ffn_up_exps.weight")->shape, (std::vector<uint64_t>{3, 2, 64}));
    EXPECT_EQ(after.find("blk.0.bias")->dtype, DType::f32);
    EXPECT_EQ(after.find("odd.scale")->dtype, DType::f32);
  }
}

TEST(Convert, LeavesNothingWhenItIsGivenUp) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", LlamaShape{}, {.type = DType::f32});
  const ConvertOptions replace = {.replace = true};
  for (const float when : {0.0f, 0.5f, 0.99f, 1.0f}) {
    float last = -1;
    const auto stop = [&](float done) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, 1.0f);
      last = done;
      if (done >= when) throw Error(Code::cancelled, "given up");
    };
    expect_error(Code::cancelled, {"given up"}, [&] { convert(folder / "m.gguf", folder / "out.gguf", {}, stop); });
    EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"m.gguf"});
  }
  folder.write("out.gguf", "old");
  expect_error(Code::cancelled, {"given up"}, [&] {
    convert(folder / "m.gguf", folder / "out.gguf", replace, [](float) { throw Error(Code::cancelled, "given up"); });
  });
  EXPECT_EQ(files_in(folder.path()), (std::vector<std::string>{"m.gguf", "out.gguf"}));
  EXPECT_EQ(text_of(folder / "out.gguf"), "old");
}

TEST(Convert, NamesTheNumberItCannotWrite) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", LlamaShape{}, {.type = DType::f32});
  std::string file = text_of(folder / "m.gguf");
  const ModelFile model = open_model(folder / "m.gguf");
  const TensorView& tensor = *model.find("blk.1.ffn_down.weight");
  const float infinite = INFINITY;
  std::memcpy(&file[tensor.bytes.data() - model.files[0].bytes().data() + (3 * 160 + 5) * 4], &infinite, 4);
  folder.write("bad.gguf", file);
  for (const FileType type : {FileType::f16, FileType::q8_0, FileType::q4_0, FileType::q6_k}) {
    const ConvertOptions options = {.type = type};
    expect_error(Code::unsupported, {"bad.gguf, tensor blk.1.ffn_down.weight: element (3, 5) is inf"},
                 [&] { convert(folder / "bad.gguf", folder / "out.gguf", options, kSilent); });
  }
  EXPECT_EQ(files_in(folder.path()), (std::vector<std::string>{"bad.gguf", "m.gguf"}));
}

TEST(Convert, ReplacesOnlyFilesAndOnlyWhenAsked) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", LlamaShape{}, {.type = DType::f32});
  folder.write("old.gguf", "old");
  fs::create_directory(folder / "taken");
  const auto in = folder / "m.gguf";
  expect_error(Code::invalid_argument, {"old.gguf: the file is there already"},
               [&] { convert(in, folder / "old.gguf", {}, kSilent); });
  EXPECT_EQ(text_of(folder / "old.gguf"), "old");
  for (const bool replace : {false, true}) {
    const ConvertOptions options = {.replace = replace};
    expect_error(Code::invalid_argument, {"taken: this is a folder"},
                 [&] { convert(in, folder / "taken", options, kSilent); });
    expect_error(Code::invalid_argument, {"/dev/null: this is no regular file"},
                 [&] { convert(in, "/dev/null", options, kSilent); });
  }
  expect_error(Code::not_found, {"absent/out.gguf: cannot create a file beside it"},
               [&] { convert(in, folder / "absent/out.gguf", {}, kSilent); });
  converted(in, in, FileType::q8_0);  // onto itself
  EXPECT_EQ(open_model(in).find("token_embd.weight")->dtype, DType::q8_0);
}

// A folder with another value in its config.json.
struct ChangedFolder : TestFolder {
  ChangedFolder(const char* key, const json& value, bool tied = true) {
    LlamaShape shape;
    shape.tied = tied;
    make_huggingface(path(), shape, {.type = DType::f16});
    json config = json::parse(text_of(*this / "config.json"));
    config[key] = value;
    write("config.json", config.dump());
  }
  void refuse(Code code, const std::vector<std::string>& fragments) const {
    expect_error(code, fragments, [&] { convert(path(), *this / "out.gguf", {}, kSilent); });
    EXPECT_FALSE(fs::exists(*this / "out.gguf"));
  }
};

TEST(Convert, RefusesFoldersItCannotWrite) {
  ChangedFolder("model_type", "mamba").refuse(Code::unsupported, {"'mamba'", "Weft runs llama, mistral"});
  ChangedFolder("model_type", 7).refuse(Code::bad_file, {"'model_type' is 7"});
  ChangedFolder("model_type", "bert").refuse(Code::unsupported, {"writing a folder of the model type 'bert'"});
  ChangedFolder("model_type", "xglm").refuse(Code::unsupported, {"no architecture for the model type 'xglm'"});
  ChangedFolder("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}})
      .refuse(Code::unsupported, {"config.json", "GGUF's 'llama' cannot state the RoPE scaling"});
  ChangedFolder("hidden_act", "gelu").refuse(Code::unsupported, {"GGUF's 'llama' cannot state the activation"});
  ChangedFolder("num_hidden_layers", 3).refuse(Code::bad_file, {"the tensor 'model.layers.2.", "is missing"});
  ChangedFolder("num_hidden_layers", 1)
      .refuse(Code::unsupported, {"tensor 'model.layers.1.", "is no part of a network of the family 'llama'"});
  ChangedFolder("intermediate_size", 96)
      .refuse(Code::bad_file, {"mlp.gate_proj.weight", "(160, 64)", "expected (96, 64)"});
  ChangedFolder("tie_word_embeddings", false).refuse(Code::bad_file, {"the tensor 'lm_head.weight' is missing"});
  const ChangedFolder bare("torch_dtype", "float16");
  fs::remove(bare / "tokenizer.json");
  bare.refuse(Code::not_found, {"no tokenizer.json"});
}

TEST(Convert, TablesThatDifferAreBothWrittenWhateverTheConfigurationSays) {
  const ChangedFolder folder("tie_word_embeddings", true, false);
  const ModelFile model = converted(folder.path(), folder / "out.gguf", FileType::f16);
  EXPECT_NE(model.find("output.weight"), nullptr);
  EXPECT_NE(model.find("token_embd.weight"), nullptr);
}

// A checkpoint of Medusa heads, (width, width) and (width) floats; the tensors have these names.
void make_checkpoint(const fs::path& path, const std::vector<std::string>& names, uint32_t width,
                     const std::string& odd = {}) {
  json header;
  std::string data;
  for (const std::string& name : names) {
    const bool bias = name.ends_with("bias");
    const size_t begin = data.size();
    const uint32_t rows = bias ? 1 : width, columns = name == odd ? width + 1 : width;
    for (uint32_t i = 0; i < rows * columns; ++i)
      data += le(static_cast<float>(static_cast<int>((i * 37 + names.size() + begin) % 101) - 50) / 64);
    header[name] = {{"dtype", "F32"},
                    {"shape", bias ? json{columns} : json{rows, columns}},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::ofstream(path, std::ios::binary) << safetensors_file(header.dump(), data);
}
const std::vector<std::string> kTwoHeads = {"medusa_head.0.0.linear.weight", "medusa_head.0.0.linear.bias",
                                            "medusa_head.1.0.linear.weight", "medusa_head.1.0.linear.bias"};

TEST(Convert, MedusaHeadsOfACheckpoint) {
  const TestFolder folder;
  const fs::path in = folder / "medusa_lm_head.safetensors";
  make_checkpoint(in, kTwoHeads, 64);
  const ModelFile after = converted(in, folder / "heads.gguf", FileType::f16);
  EXPECT_EQ(after.metadata["general.architecture"], "medusa");
  EXPECT_EQ(after.metadata["medusa.embedding_length"], 64);
  EXPECT_EQ(after.metadata["medusa.head_count"], 2);
  ASSERT_EQ(after.tensors.size(), 4u);
  const MappedFile mapped(in);
  const std::vector<TensorView> before = parse_safetensors(mapped.bytes(), in.string());
  for (const TensorView& tensor : before) {
    // "medusa_head.1.0.linear.bias" -> "medusa.1.bias"
    const TensorView* const same =
        after.find("medusa." + tensor.name.substr(12, 1) + tensor.name.substr(tensor.name.rfind('.')));
    ASSERT_TRUE(same) << tensor.name;
    EXPECT_EQ(same->dtype, tensor.name.ends_with("bias") ? DType::f32 : DType::f16);
    EXPECT_EQ(same->shape, tensor.shape);
    std::vector<float> was(element_count(tensor.shape)), is(was.size());
    to_float(tensor, 0, was);
    to_float(*same, 0, is);
    EXPECT_EQ(is, was) << tensor.name;  // k / 64 is exact in f16
  }
  EXPECT_EQ(converted(in, folder / "q8.gguf", FileType::q8_0).find("medusa.0.weight")->dtype, DType::q8_0);
}

// As the first published heads have them: a vocabulary matrix each, here of 64 rows; and with two layers.
TEST(Convert, MedusaHeadsWithTheirOwnMatrices) {
  const TestFolder folder;
  const fs::path in = folder / "medusa_lm_head.safetensors";
  std::vector<std::string> names = kTwoHeads;
  names.insert(names.end(), {"medusa_head.0.1.weight", "medusa_head.1.1.weight"});
  make_checkpoint(in, names, 64);
  const ModelFile published = converted(in, folder / "heads.gguf", FileType::f16);
  EXPECT_EQ(published.tensors.size(), 6u);
  EXPECT_FALSE(published.metadata.find("medusa.layer_count"));
  ASSERT_TRUE(published.find("medusa.1.output.weight"));
  EXPECT_EQ(published.find("medusa.1.output.weight")->shape, (std::vector<uint64_t>{64, 64}));
  names = kTwoHeads;
  for (const char* head : {"0", "1"})
    for (const char* what : {".1.linear.weight", ".1.linear.bias", ".2.weight"})
      names.push_back("medusa_head." + std::string(head) + what);
  make_checkpoint(in, names, 64);
  const ModelFile deep = converted(in, folder / "deep.gguf", FileType::f16);
  EXPECT_EQ(deep.tensors.size(), 10u);
  EXPECT_EQ(deep.metadata["medusa.layer_count"], 2);
  for (const char* name : {"medusa.0.weight", "medusa.0.1.weight", "medusa.1.1.bias", "medusa.0.output.weight"})
    EXPECT_TRUE(deep.find(name)) << name;
}

TEST(Convert, RefusesOtherMedusaHeads) {
  const TestFolder folder;
  const fs::path in = folder / "m.safetensors";
  const auto refusal = [&](std::vector<std::string> more, const std::string& odd = {}, size_t without = SIZE_MAX) {
    std::vector<std::string> names = kTwoHeads;
    if (without < names.size()) names.erase(names.begin() + static_cast<ptrdiff_t>(without));
    names.insert(names.end(), more.begin(), more.end());
    make_checkpoint(in, names, 64, odd);
    try {
      converted(in, folder / "out.gguf", FileType::q8_0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(refusal({}), "");
  EXPECT_PRED2(has, refusal({"medusa_head.0.1.weight"}),
               "some heads have a vocabulary matrix of their own and some have none");
  EXPECT_PRED2(has, refusal({"medusa_head.0.1.linear.weight"}), "head 0 has no bias");
  EXPECT_PRED2(has, refusal({"medusa_head.0.1.linear.weight", "medusa_head.0.1.linear.bias"}),
               "head 1 has 1 layers, head 0 has 2");
  EXPECT_PRED2(has, refusal({"medusa_head.0.2.linear.weight"}), "a head or a layer whose number does not follow");
  EXPECT_PRED2(has, refusal({"medusa_head.3.0.linear.weight"}), "a head or a layer whose number does not follow");
  EXPECT_PRED2(has, refusal({"lm_head.weight"}), "no part of a Medusa head");
  EXPECT_PRED2(has, refusal({}, {}, 3), "head 1 has no bias");
  EXPECT_PRED2(has, refusal({}, "medusa_head.1.0.linear.weight"), "has the shape (64, 65), expected (64, 64)");
  make_checkpoint(in, {}, 64);
  EXPECT_THROW(converted(in, folder / "out.gguf", FileType::q8_0), Error);
}

}  // namespace
}  // namespace weft
