// Squared inputs of products, against the reference; and the file that has them.
#include "run/squared_inputs.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "format/gguf.h"
#include "reference/llama.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class ProductInputsTest : public GpuTest {
 protected:
  std::filesystem::path make(LlamaShape shape = {}) {
    shape.width = 72, shape.heads = 4, shape.kv_heads = 2, shape.ffn = 96, shape.vocab = 200, shape.context = 512;
    make_gguf(folder_.path() / "m.gguf", shape, {DType::f32, 3, ""});
    return folder_.path() / "m.gguf";
  }
  static std::vector<SquaredInputs> measure(const Model& model, const ModelFile& file,
                                            const std::vector<std::span<const uint32_t>>& parts) {
    return squared_inputs(model, file, parts, [](float) {});
  }
  TemporaryFolder folder_;
};

// Parts of several chunks of tokens, and of one that is not full. Each has a context of its own.
TEST_F(ProductInputsTest, AreThoseOfTheReference) {
  const std::filesystem::path path = make();
  const auto model = load_model(open_device(), path, Format::f16);
  const ModelFile file = open_model(path);
  const std::vector<uint32_t> ids = some_ids(110, model->config.vocab);
  const std::vector<std::span<const uint32_t>> parts = {std::span(ids).first(70), std::span(ids).subspan(70)};
  reference::SquareSums want;
  for (const auto& part : parts) reference::llama_logits(file, model->config, Format::f16, part, &want);
  const std::vector<SquaredInputs> got = measure(*model, file, parts);
  const std::map<std::string, std::string> same_input = {
      {"attn_k", "attn_q"}, {"attn_v", "attn_q"}, {"ffn_up", "ffn_gate"}};
  EXPECT_EQ(got.size(), 7u * model->config.layers);
  for (const SquaredInputs& product : got) {
    SCOPED_TRACE(product.tensor);
    ASSERT_TRUE(file.find(product.tensor));
    EXPECT_EQ(product.tokens, ids.size());
    const uint32_t layer = static_cast<uint32_t>(product.tensor[4] - '0');
    std::string role = product.tensor.substr(6, product.tensor.rfind('.') - 6);
    if (const auto other = same_input.find(role); other != same_input.end()) role = other->second;
    const std::vector<double>& sums = want.at({role, layer});
    ASSERT_EQ(product.sums.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(product.sums[i], sums[i], 2e-3 * sums[i]) << i;
  }
}

// A folder of Granite 4 has the gate and what it gates as one matrix, which a GGUF file has apart.
TEST_F(ProductInputsTest, FoldersNameTheGatesOfTheGgufFile) {
  const std::filesystem::path folder = source_folder() / "tests/model/golden/granite-hybrid";
  const auto model = load_model(open_device(), folder, Format::f16);
  const std::vector<uint32_t> ids = some_ids(20, model->config.vocab);
  const ModelFile gguf = open_model(folder / "model.gguf");
  uint32_t gates = 0;
  for (const SquaredInputs& product : measure(*model, open_model(folder), {ids})) {
    EXPECT_TRUE(gguf.find(product.tensor)) << product.tensor;
    gates += product.tensor.find(".ffn_gate.") != std::string::npos;
  }
  EXPECT_EQ(gates, model->config.layers);
}

// Gates of attention and experts of all tokens are measured by their own inputs.
TEST_F(ProductInputsTest, ProductsThatOnlySomeLayersHave) {
  for (const char* const family : {"qwen35", "qwen35-moe", "granite-hybrid-moe"}) {
    SCOPED_TRACE(family);
    const std::filesystem::path path = source_folder() / "tests/model/golden" / family / "model.gguf";
    const auto model = load_model(open_device(), path, Format::f16);
    const std::vector<uint32_t> ids = some_ids(20, model->config.vocab);
    const ModelFile file = open_model(path);
    uint32_t shared = 0;
    for (const SquaredInputs& product : measure(*model, file, {ids})) {
      const TensorView* const tensor = file.find(product.tensor);
      ASSERT_TRUE(tensor) << product.tensor;
      EXPECT_EQ(product.sums.size(), tensor->shape.back()) << product.tensor;
      EXPECT_GT(product.sums.back(), 0) << product.tensor;
      shared += product.tensor.find("_shexp.") != std::string::npos;
    }
    EXPECT_EQ(shared > 0, model->config.layer_kind.shared_expert != SharedExpert::none);
  }
}

// llama.cpp's llama-quantize reads these names; a count for each tensor.
TEST_F(ProductInputsTest, TheFileIsReadBack) {
  const std::vector<SquaredInputs> inputs = {{"blk.0.attn_q.weight", {2, 8, 0}, 2}, {"blk.0.ffn_up.weight", {1}, 4}};
  const std::string bytes = importance_file(inputs, "some.txt", 3, 512);
  const auto contents = parse_gguf(std::as_bytes(std::span(bytes)), "x");
  EXPECT_EQ(contents.metadata["imatrix.datasets"][0], "some.txt");
  EXPECT_EQ(contents.metadata["imatrix.chunk_count"], 3);
  EXPECT_EQ(contents.metadata["imatrix.chunk_size"], 512);
  EXPECT_EQ(contents.tensors[0].name, "blk.0.attn_q.weight.in_sum2");
  EXPECT_EQ(contents.tensors[0].shape, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(contents.tensors[1].shape, (std::vector<uint64_t>{1, 1}));
  const Importance importance = parse_importance(std::as_bytes(std::span(bytes)), "x");
  EXPECT_EQ(importance.find("blk.0.attn_q.weight")->factors, (std::vector<float>{1, 4, 0}));
  EXPECT_EQ(importance.find("blk.0.ffn_up.weight")->factors, (std::vector<float>{0.25f}));
}

}  // namespace
}  // namespace weft::test
