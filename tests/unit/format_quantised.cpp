// Folders with quantised matrices: every number is the one that the tool stored (tests/tools/quantised_goldens.py), and
// every part is checked. No device needed.
#include "format/quantised.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "format/model_file.h"
#include "format/packed_row.h"
#include "format/quantised_rows.h"
#include "format_support.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path golden(const std::string& name) { return source_folder() / "tests/model/golden_quantised" / name; }

std::string text_of(const fs::path& path) { return std::string(MappedFile(path).text()); }

// As zlib computes it (RFC 1952, section 8).
uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// A folder of the goldens, whose files a test may change.
class Changed {
 public:
  explicit Changed(const char* name) : Changed(golden(name)) {}
  explicit Changed(const fs::path& from) : config(json::parse(text_of(from / "config.json"))) {
    const std::string file = text_of(from / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const json header = json::parse(file.substr(8, length));
    for (const auto& [tensor, entry] : header.items()) {
      if (tensor == "__metadata__") continue;
      const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      tensors[tensor] = {entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)};
    }
  }

  struct Tensor {
    std::string dtype;
    std::vector<uint64_t> shape;
    std::string bytes;
  };
  json config;
  std::map<std::string, Tensor> tensors;

  ModelFile open() {
    json header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    folder_.write("model.safetensors", safetensors_file(header.dump(), data));
    folder_.write("config.json", config.dump());
    return open_model(folder_.path());
  }

  json& how() { return config["quantization_config"]; }
  template <typename T>
  void set(const std::string& name, size_t index, T value) {
    std::memcpy(&tensors.at(name).bytes[index * sizeof value], &value, sizeof value);
  }
  template <typename T>
  T get(const std::string& name, size_t index) const {
    T value;
    std::memcpy(&value, &tensors.at(name).bytes[index * sizeof value], sizeof value);
    return value;
  }
  void refuse(const std::vector<std::string>& fragments, Code code = Code::bad_file) {
    expect_error(code, fragments, [&] { open(); });
  }

 private:
  TestFolder folder_;
};

const std::string kUp = "model.layers.0.mlp.up_proj";

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden(""))) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class QuantisedFolders : public testing::TestWithParam<std::string> {};

TEST_P(QuantisedFolders, HaveTheNumbersThatTheToolStored) {
  const ModelFile model = open_model(golden(GetParam()));
  const json reference = json::parse(text_of(golden(GetParam()) / "reference.json"));
  size_t quantised = 0;
  for (const TensorView& tensor : model.tensors) {
    EXPECT_FALSE(is_raw(tensor.dtype)) << tensor.name;
    quantised += tensor.rows != nullptr;
    if (!tensor.rows) continue;
    SCOPED_TRACE(tensor.name);
    const std::vector<float> values = floats_of(tensor);
    EXPECT_EQ(crc32(std::as_bytes(std::span(values))), reference["crc"].at(tensor.name).get<uint32_t>());
    std::vector<std::byte> bytes;
    Rounding rounding;
    for (uint64_t row = 0; row < tensor.shape[0]; ++row) {
      const std::vector<float> own = floats_of(computed_row(tensor, row, tensor.dtype, bytes, rounding));
      const auto want = values.begin() + static_cast<ptrdiff_t>(row * tensor.shape[1]);
      if (tensor.rows->has_blocks(tensor.dtype) && tensor.rows->blocks_are_rounded(tensor.dtype))
        for (size_t i = 0; i < own.size(); ++i) {  // scales are rounded to f16
          const float most = std::abs(want[static_cast<ptrdiff_t>(i)]) * 0x1p-11f + 128 * 0x1p-25f;
          ASSERT_NEAR(own[i], want[static_cast<ptrdiff_t>(i)], most) << "row " << row << ", column " << i;
        }
      else
        ASSERT_TRUE(std::equal(own.begin(), own.end(), want)) << "row " << row;
    }
    EXPECT_LT(rounding.relative(), 0x1p-11);
    const TensorView part = rows_of(tensor, 3, 5);
    std::vector<float> some(90);  // begins in a row, ends in another
    to_float(part, tensor.shape[1] + 32, some);
    EXPECT_TRUE(
        std::equal(some.begin(), some.end(), values.begin() + static_cast<ptrdiff_t>(4 * tensor.shape[1] + 32)));
  }
  EXPECT_EQ(quantised, reference["crc"].size());
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedFolders, testing::ValuesIn(golden_names()), [](const auto& one) {
  std::string name = one.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// The type that holds a matrix without rounding, where there is one.
TEST(Quantised, TypesThatHoldTheNumbers) {
  for (const auto& [name, type] : {std::pair("gptq-4", DType::q4_0),
                                   {"gptq-4-asymmetric", DType::q5_0},
                                   {"gptq-4-order-v2", DType::dequantised},
                                   {"gptq-8", DType::q8_0},
                                   {"gptq-8-head", DType::f32},
                                   {"awq-4", DType::q5_0},
                                   {"compressed-int", DType::q5_0},
                                   {"compressed-w8a8", DType::q8_0},
                                   {"compressed-fp8", DType::dequantised},
                                   {"nf4-nested", DType::dequantised},
                                   {"bnb-int8", DType::q8_0}}) {
    const ModelFile model = open_model(golden(name));
    EXPECT_EQ(model.find(kUp + ".weight")->dtype, type) << name;
  }
}

// Scales that f16 does not hold: the blocks have the nearest, and the error is what that makes of the numbers.
TEST(Quantised, SaysHowMuchScalesAreRounded) {
  Changed folder("gptq-4");
  Changed::Tensor& scales = folder.tensors.at(kUp + ".scales");
  const size_t count = scales.bytes.size() / 2;
  scales = {"F32", scales.shape, std::string(count * 4, '\0')};
  for (size_t i = 0; i < count; ++i) folder.set(kUp + ".scales", i, 0.1f);
  const ModelFile model = folder.open();
  const TensorView& tensor = *model.find(kUp + ".weight");
  EXPECT_EQ(tensor.dtype, DType::q4_0);
  std::vector<std::byte> bytes;
  Rounding rounding;
  const std::vector<float> kept = floats_of(computed_row(tensor, 0, DType::q4_0, bytes, rounding)),
                           values = floats_of(rows_of(tensor, 0, 1));
  float error = 0;
  for (size_t i = 0; i < kept.size(); ++i) error = std::max(error, std::abs(kept[i] - values[i]));
  EXPECT_GT(error, 0);
  EXPECT_EQ(rounding.largest_error, error);
  EXPECT_LT(rounding.relative(), 0x1p-11);
}

// Zero points that are 0 make version 1's subtraction borrow from the word's next zero point.
TEST(Quantised, AddsOneToWordsOfZeroPoints) {
  Changed folder("gptq-4");
  const std::vector<float> before = floats_of(*folder.open().find(kUp + ".weight"));
  folder.set(kUp + ".qzeros", 0, uint32_t{0x88888880 - 0x11111111});  // of rows 0 to 7
  const ModelFile model = folder.open();
  const TensorView& tensor = *model.find(kUp + ".weight");
  const std::vector<float> after = floats_of(tensor);
  const uint64_t columns = tensor.shape[1];
  const float scale = half_to_float(folder.get<uint16_t>(kUp + ".scales", 0));
  ASSERT_GT(scale, 0);
  for (uint64_t i = 0; i < after.size(); ++i)
    ASSERT_EQ(after[i], i < columns ? scale * (std::nearbyint(before[i] / scale) + 8) : before[i])
        << "row " << i / columns << ", column " << i % columns;
}

// Tables and `--type q4`: the integers stay, only the minima are rounded.
TEST(Quantised, KeepsTheIntegersInQ4) {
  const ModelFile model = open_model(golden("awq-4"));
  const TensorView& tensor = *model.find(kUp + ".weight");
  RowPacker packer(DType::q4_1, tensor.shape[1]);
  Rounding rounding;
  for (uint64_t row = 0; row < tensor.shape[0]; ++row) packer.pack(tensor, row, rounding);
  EXPECT_GT(rounding.largest_error, 0);
  EXPECT_LT(rounding.relative(), 0x1p-11);
}

TEST(Quantised, RefusesConfigurationsItCannotRead) {
  const auto with = [](const char* name, const char* key, const json& value, const std::vector<std::string>& fragments,
                       Code code) {
    Changed folder(name);
    folder.how()[key] = value;
    folder.refuse(fragments, code);
  };
  with("gptq-4", "quant_method", "quip", {"config.json, quantization_config", "'quip'", "gptq"}, Code::unsupported);
  with("gptq-4", "bits", 3, {"'bits' is 3"}, Code::unsupported);
  with("gptq-4", "bits", "four", {"bits"}, Code::bad_file);
  with("gptq-4", "checkpoint_format", "marlin", {"'marlin'", "gptq_v2"}, Code::unsupported);
  with("gptq-4", "group_size", 0, {"group_size"}, Code::bad_file);
  with("gptq-4", "group_size", 32, {"model.safetensors", "qzeros has the shape (1, 8), expected (2, 8)"},
       Code::bad_file);
  with("gptq-4", "bits", 8, {"qzeros has the shape", "expected"}, Code::bad_file);
  with("awq-4", "version", "gemv", {"'gemv'", "gemm"}, Code::unsupported);
  with("awq-4", "backend", "llm-awq", {"'llm-awq'"}, Code::unsupported);
  with("awq-4", "bits", 8, {"AWQ of 8 bits"}, Code::unsupported);
  with("compressed-int", "format", "marlin-24", {"'marlin-24'", "pack-quantized"}, Code::unsupported);
  with("compressed-int", "sparsity_config", {{"format", "sparse-24-bitmask"}}, {"sparse weights"}, Code::unsupported);
  with("compressed-int", "transform_config", {{"config_groups", {{"u", {{"type", "hadamard"}}}}}},
       {"transform_config: not supported: transforms"}, Code::unsupported);
  with("compressed-int", "config_groups", {{"a", {{"format", "nvfp4-pack-quantized"}}}},
       {"config_groups", "'nvfp4-pack-quantized'"}, Code::unsupported);
  with("compressed-int", "config_groups", json::array(), {"config_groups"}, Code::bad_file);
  const auto group = [](const json& weights) { return json{{"weights", weights}}; };
  with("compressed-int", "config_groups", {{"a", group({{"num_bits", 4}})}, {"b", group({{"num_bits", 7}})}},
       {"config_groups, b, weights: not supported: 'num_bits' is 7", "4 and 8"}, Code::unsupported);
  with("compressed-fp8", "config_groups",
       {{"a", group({{"block_structure", {48, 32}}})}, {"b", group({{"block_structure", {40, 32}}})}},
       {"config_groups, b, weights: not supported: another 'block_structure'"}, Code::unsupported);
  with("fp8-blocks", "fmt", "e5m2", {"'e5m2'", "e4m3"}, Code::unsupported);
  with("fp8-blocks", "weight_block_size", {48}, {"weight_block_size", "two numbers"}, Code::bad_file);
  with("fp8-blocks", "weight_block_size", {48, 64}, {"weight_scale_inv has the shape (2, 2), expected (2, 1)"},
       Code::bad_file);
}

TEST(Quantised, NamesThePartThatIsWrong) {
  for (const char* part : {"qzeros", "scales"}) {
    Changed folder("gptq-4");
    folder.tensors.erase(kUp + "." + part);
    folder.refuse({"the tensor " + kUp + "." + part + " is missing"});
  }
  {
    Changed folder("gptq-4-order-v2");
    folder.tensors.erase(kUp + ".g_idx");
    folder.refuse({kUp + ".g_idx is missing"});
  }
  {
    Changed folder("gptq-4");  // not needed where groups are neighbours
    folder.tensors.erase(kUp + ".g_idx");
    EXPECT_EQ(folder.open().find(kUp + ".weight")->dtype, DType::q4_0);
  }
  {
    Changed folder("gptq-4-order-v2");
    folder.set(kUp + ".g_idx", 5, int32_t{2});
    folder.refuse({"model.safetensors: tensor " + kUp + ".g_idx puts column 5 into group 2 of 2"});
    folder.set(kUp + ".g_idx", 5, int32_t{-1});
    folder.refuse({"into group -1"});
  }
  for (const uint16_t scale : {0x7e00, 0x7c00}) {  // a NaN, infinity
    Changed folder("awq-4");
    folder.set(kUp + ".scales", 64 + 7, scale);
    folder.refuse({"model.safetensors: tensor " + kUp + ".scales has the scale", "of row 7 and group 1"});
  }
  {
    Changed folder("awq-4");
    folder.tensors.at(kUp + ".scales").shape = {1, 128};
    folder.refuse({kUp + ".scales has the shape (1, 128), expected (2, 64)"});
  }
  {
    Changed folder("awq-4");
    folder.tensors.at(kUp + ".qweight").dtype = "F32";
    folder.refuse({kUp + ".qweight is F32, expected I32"});
  }
  {
    Changed folder("gptq-4");  // a part of nothing
    folder.tensors["model.rest"] = {"I32", {1}, "1234"};
    folder.refuse({"I32 in tensor model.rest"}, Code::unsupported);
  }
  {
    Changed folder("gptq-4");
    folder.tensors[kUp + ".weight"] = {"F16", {1}, "12"};
    folder.refuse({kUp + ".weight is in the folder twice: quantised, and as plain numbers"});
  }
}

TEST(Quantised, NamesThePartOfCompressedTensorsThatIsWrong) {
  {
    Changed folder("compressed-int");
    folder.set(kUp + ".weight_shape", 1, int64_t{63});
    folder.refuse({kUp + ".weight_scale has 2 groups for 63 columns"});
    folder.set(kUp + ".weight_shape", 1, int64_t{100});
    folder.refuse({kUp + ".weight_packed has the shape (64, 8)", "(64, 100)"});
    folder.set(kUp + ".weight_shape", 1, int64_t{-1});
    folder.refuse({kUp + ".weight_shape says that a matrix has the extent -1"});
  }
  {
    Changed folder("compressed-int");
    folder.tensors.erase(kUp + ".weight_scale");
    folder.refuse({kUp + ".weight_scale is missing"});
  }
  {
    Changed folder("compressed-int");
    folder.tensors.at(kUp + ".weight_zero_point").shape = {2, 8};
    folder.refuse({kUp + ".weight_zero_point has the shape (2, 8), expected (8, 2)"});
  }
  {
    Changed folder("compressed-int");
    folder.set("model.layers.0.self_attn.o_proj.weight_g_idx", 0, int32_t{2});
    folder.refuse({"o_proj.weight_g_idx puts column 0 into group 2 of 2"});
  }
  {
    Changed folder("compressed-w8a8");
    folder.set(kUp + ".weight_scale", 3, uint16_t{0x7fc0});  // a NaN of BF16
    folder.refuse({kUp + ".weight_scale has the scale nan of row 3 and group 0"});
  }
  {
    Changed folder("compressed-fp8");
    folder.tensors.at(kUp + ".weight_scale").shape = {1, 1, 1};
    EXPECT_TRUE(folder.open().find(kUp + ".weight")->rows);
    folder.set(kUp + ".weight_scale", 0, std::numeric_limits<float>::infinity());
    folder.refuse({kUp + ".weight_scale has the scale inf of block (0, 0)"});
  }
}

TEST(Quantised, ChecksZeroPointsOutsideWords) {
  Changed folder("compressed-int");
  Changed::Tensor& zeros = folder.tensors.at(kUp + ".weight_zero_point");
  zeros = {"I8", {64, 2}, std::string(128, '\7')};
  EXPECT_EQ(folder.open().find(kUp + ".weight")->dtype, DType::q5_0);
  for (const int8_t zero : {-9, 8, 100}) {
    folder.set(kUp + ".weight_zero_point", 5, zero);
    folder.refuse({"model.safetensors: tensor " + kUp + ".weight_zero_point has the zero point " +
                   std::to_string(zero) + " at element 5, expected -8 to 7"});
  }
}

// Older folders have a group of no column instead of no tensor.
TEST(Quantised, ReadsGroupsThatAreNotNamed) {
  Changed folder("compressed-int");
  const std::vector<float> want = floats_of(*folder.open().find(kUp + ".weight"));
  folder.tensors[kUp + ".weight_g_idx"] = {"I32", {64}, std::string(256, '\xff')};
  const ModelFile model = folder.open();
  EXPECT_EQ(model.find(kUp + ".weight")->dtype, DType::q5_0);
  EXPECT_EQ(floats_of(*model.find(kUp + ".weight")), want);
  folder.set(kUp + ".weight_g_idx", 63, int32_t{1});
  folder.refuse({kUp + ".weight_g_idx puts column 0 into group -1"});
  folder.tensors[kUp + ".weight_g_idx"] = {"I32", {63}, std::string(252, '\xff')};
  folder.refuse({kUp + ".weight_g_idx has the shape (63), expected (64)"});
}

// As many blocks as rows.
TEST(Quantised, TellsBlocksFromRowsByShape) {
  Changed folder("compressed-fp8");
  folder.how()["config_groups"] = {{"a", {{"weights", {{"num_bits", 8}, {"block_structure", {8, 8}}}}}}};
  folder.tensors[kUp + ".weight_scale"] = {"F32", {8, 8}, std::string(256, '\0')};
  for (size_t i = 0; i < 64; ++i) folder.set(kUp + ".weight_scale", i, static_cast<float>(i));
  folder.tensors[kUp + ".weight"].bytes = std::string(4096, '\x38');  // all 1
  const std::vector<float> values = floats_of(*folder.open().find(kUp + ".weight"));
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i / 512 * 8 + i % 64 / 8)) << i;
}

// The folder of gpt-oss has the numbers of the GGUF file beside it. In it, rows of gates and of what they gate
// alternate.
TEST(Quantised, HasTheNumbersOfExperts) {
  const fs::path path = source_folder() / "tests/model/golden/gpt-oss-mxfp4";
  const ModelFile folder = open_model(path), gguf = open_model(path / "model.gguf");
  const TensorView &both = *folder.find("model.layers.0.mlp.experts.gate_up_proj"),
                   &gates = *gguf.find("blk.0.ffn_gate_exps.weight"), &ups = *gguf.find("blk.0.ffn_up_exps.weight");
  ASSERT_EQ(both.dtype, DType::mxfp4);
  ASSERT_EQ(both.shape, (std::vector<uint64_t>{gates.shape[0], 2 * gates.shape[1], gates.shape[2]}));
  const std::vector<float> own = floats_of(both), gate = floats_of(gates), up = floats_of(ups);
  const uint64_t columns = gates.shape[2];
  for (size_t i = 0; i < own.size(); ++i) {
    const uint64_t row = i / columns;
    const std::vector<float>& want = row % 2 == 0 ? gate : up;
    ASSERT_EQ(own[i], want[row / 2 * columns + i % columns]) << i;
  }
}

TEST(Quantised, NamesThePartOfMxfp4ThatIsWrong) {
  const fs::path path = source_folder() / "tests/model/golden/gpt-oss-mxfp4";
  const std::string down = "model.layers.0.mlp.experts.down_proj";
  {
    Changed folder(path);
    folder.tensors.erase(down + "_scales");
    folder.refuse({"the tensor " + down + "_scales is missing"});
  }
  {
    Changed folder(path);
    std::vector<uint64_t>& shape = folder.tensors.at(down + "_blocks").shape;
    shape = {shape[0], shape[1], shape[2] * 2, 8};
    folder.refuse({"model.safetensors: tensor " + down + "_blocks is U8 of the shape", "expected U8 and (experts"});
  }
  {
    Changed folder(path);
    std::swap(folder.tensors.at(down + "_scales").shape[0], folder.tensors.at(down + "_scales").shape[1]);
    folder.refuse({down + "_scales has the shape", "expected"});
  }
}

TEST(Quantised, NamesThePartOfBitsandbytesThatIsWrong) {
  const std::string state = kUp + ".weight.quant_state.bitsandbytes__nf4";
  const auto with_state = [&](const json& words, const std::vector<std::string>& fragments) {
    Changed folder("nf4-nested");
    json own = json::parse(folder.tensors.at(state).bytes);
    own.update(words);
    folder.tensors.at(state).bytes = own.dump();
    folder.tensors.at(state).shape = {own.dump().size()};
    folder.refuse(fragments);
  };
  with_state({{"shape", {64, 65}}}, {kUp + ".weight has 2048 bytes, expected 2080 for 64 rows of 65"});
  with_state({{"shape", {64}}}, {state, "shape", "two numbers"});
  with_state({{"blocksize", 128}}, {kUp + ".weight.absmax has the shape (64), expected (32)"});
  with_state({{"blocksize", 0}}, {state, "blocksize"});
  with_state({{"nested_blocksize", 32}}, {kUp + ".weight.nested_absmax has the shape (1), expected (2)"});
  {
    Changed folder("nf4-nested");
    folder.tensors.erase(kUp + ".weight.quant_map");
    folder.refuse({kUp + ".weight.quant_map is missing"});
  }
  {
    Changed folder("nf4-nested");
    folder.tensors.at(state).bytes.back() = '!';
    folder.refuse({"model.safetensors, tensor " + state, "line 1"});
  }
  {
    Changed folder("nf4-nested");
    folder.tensors.erase(state);
    folder.refuse({"U8 in tensor " + kUp + ".weight"}, Code::unsupported);
  }
  {
    Changed folder("fp4");
    folder.set(kUp + ".weight.absmax", 9, std::numeric_limits<float>::quiet_NaN());
    folder.refuse({kUp + ".weight.absmax has the factor nan of block 9"});
  }
  {
    Changed folder("bnb-int8");
    folder.set(kUp + ".weight_format", 0, uint8_t{1});
    folder.refuse({kUp + ".weight_format names another order"}, Code::unsupported);
  }
}

}  // namespace
}  // namespace weft
