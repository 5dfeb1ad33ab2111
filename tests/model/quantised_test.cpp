// Folders with quantised matrices against Hugging Face Transformers, which computes with the dequantised weights
// (tests/tools/quantised_goldens.py).
#include <algorithm>
#include <map>

#include "convert/convert.h"
#include "support/golden.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

std::filesystem::path golden(const std::string& name) {
  return source_folder() / "tests/model/golden_quantised" / name;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden("")))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Types of a matrix, in the folder and on the device, and the largest error of a number relative to the largest.
struct Types {
  std::string file, device;
  double most_rounding = 0;
};
const std::map<std::string, Types> kUpProjections = {
    {"gptq-4", {"GPTQ4", "q4_0"}},
    {"gptq-4-asymmetric", {"GPTQ4", "q5_0"}},
    {"gptq-4-order-v2", {"GPTQ4", "q8", 0.5 / 127 + 1e-4}},
    {"gptq-8", {"GPTQ8", "q8"}},
    {"gptq-8-head", {"GPTQ8", "f16", 0x1p-11}},
    {"awq-4", {"AWQ4", "q5_0"}},
    {"compressed-int", {"INT4", "q5_0"}},
    {"compressed-w8a8", {"INT8", "q8"}},
    {"compressed-fp8", {"FP8", "q8", 0.5 / 127 + 1e-4}},
    {"fp8-blocks", {"FP8", "q8", 0.5 / 127 + 1e-4}},
    {"nf4-nested", {"NF4", "q8", 0.5 / 127 + 1e-4}},
    {"fp4", {"FP4", "q8", 0.5 / 127 + 1e-4}},
    {"bnb-int8", {"BNB8", "q8", 0x1p-11}},
};

constexpr double kRounded = 2 * kTolerance;  // f16 does not hold all numbers, unlike those of the families' models

class QuantisedTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  Golden golden_ = read_golden(golden(GetParam()));
};

TEST_P(QuantisedTest, EqualsTransformersInF16) {
  const auto model = load_model(open_device(), golden(GetParam()), Format::f16);
  EXPECT_LT(distance(*model, golden_).logits, kRounded);
  expect_greedy_ids(*model, golden_);
}

// The matrices in the format that holds them.
TEST_P(QuantisedTest, KeepsTheFilesNumbers) {
  const auto model = load_model(open_device(), golden(GetParam()), std::nullopt);
  const Distance off = distance(*model, golden_);
  std::printf("%.1e of the spread, %.1e nats\n", off.logits, off.divergence);
  double rounding = 0;
  for (const TensorReport& tensor : model->weights.tensors) rounding = std::max(rounding, tensor.rounding.relative());
  if (rounding < 1e-3)
    EXPECT_LT(off.logits, kTolerance);
  else
    EXPECT_LT(off.divergence, 1e-3);
  const auto wanted = kUpProjections.find(GetParam());
  if (wanted == kUpProjections.end()) return;
  const auto up = std::ranges::find(model->weights.tensors, "model.layers.0.mlp.up_proj.weight", &TensorReport::name);
  ASSERT_NE(up, model->weights.tensors.end());
  const auto& [file, device, most] = wanted->second;
  EXPECT_EQ(up->file_type, file);
  EXPECT_EQ(up->device_type, device);
  EXPECT_LE(up->rounding.relative(), most);
  EXPECT_EQ(up->rounding.largest_error > 0, most > 0);
  if (GetParam() == "compressed-int") {  // queries by themselves, keys and values in what holds both
    const auto device_type = [&](const std::string& name) {
      const std::string whole = "model.layers.0.self_attn." + name + ".weight";
      return std::ranges::find(model->weights.tensors, whole, &TensorReport::name)->device_type;
    };
    EXPECT_EQ(device_type("q_proj") + " " + device_type("k_proj") + " " + device_type("v_proj"), "q4_0 q8 q8");
  }
}

// A GGUF file that is made of the folder gives the same logits. The folders lack a tokenizer, and get one.
TEST_P(QuantisedTest, ConvertsToTheSameModel) {
  const TemporaryFolder folder;
  LlamaShape shape;
  shape.vocab = 64;
  make_huggingface(folder.path() / "hf", shape, {.type = DType::f16});
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(golden(GetParam()) / name, folder.path() / "hf" / name,
                               std::filesystem::copy_options::overwrite_existing);
  const std::filesystem::path out = folder.path() / "out.gguf";
  convert(folder.path() / "hf", out, {FileType::f16, FileType::f16, true}, [](float) {});
  EXPECT_LT(distance(*load_model(open_device(), out, Format::f16), golden_).logits, kRounded);
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedTest, testing::ValuesIn(golden_names()), [](const auto& one) {
  std::string name = one.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace weft::test
