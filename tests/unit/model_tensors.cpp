// Quantised matrices by their roles, and in the fingerprint of a file. No device needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "format/quantised_rows.h"
#include "model/fingerprint.h"
#include "model/parts.h"
#include "model/tensors.h"
#include "support/source_folder.h"

namespace weft {
namespace {

// gpt-oss's gates and what they gate alternate: both need all bytes of an expert, and each reports one half of them.
TEST(Tensors, ExpertsReportAllTheirStoredBytes) {
  const ModelFile file = open_model(source_folder() / "tests/model/golden/gpt-oss-mxfp4");
  const TensorView& all = *file.find("model.layers.0.mlp.experts.gate_up_proj");
  const auto count = static_cast<uint32_t>(all.shape[0]);
  const Config config = read_config(file);
  Tensors tensors(file, config);
  const std::byte* at = stored_bytes(all).data();
  for (uint32_t number = 0; number < count; ++number)
    for (const Part& part : tensors.expert_gate_up(0, all.shape[1] / 2)) {
      const auto own = stored_bytes(tensors.expert(part, 0, number, count, all.shape[2], false));
      EXPECT_EQ(own.data() - at, 0) << number;
      at = own.data() + own.size();
    }
  EXPECT_EQ(at, stored_bytes(all).data() + stored_bytes(all).size());
}

// Other families' experts in one quantised tensor would all be read as the first.
TEST(Tensors, RefuseQuantisedExpertsInOneTensor) {
  ModelFile file = open_model(source_folder() / "tests/model/golden_quantised/gptq-4-moe");
  const std::string name = "model.layers.0.mlp.experts.gate_proj";
  const size_t place = file.index.at("model.layers.0.mlp.experts.0.gate_proj.weight");
  file.index.erase(file.tensors[place].name);
  file.index[name] = place;
  TensorView& all = file.tensors[place];
  ASSERT_TRUE(all.rows);
  all.name = name;
  const uint64_t rows = all.shape[0], columns = all.shape[1];
  all.shape = {3, rows, columns};
  const Config config = read_config(file);
  Tensors tensors(file, config);
  try {
    tensors.expert(tensors.expert_gate_up(0, rows)[0], 0, 1, 3, columns, false);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("experts in the quantised tensor '" + name + "'"), std::string::npos)
        << error.what();
  }
}

// llama.cpp's file of Gemma 3's encoder has the projection transposed; tools that quantise it leave blocks in its rows.
TEST(Tensors, BlocksAreDecodedBeforeTheyAreTransposed) {
  ModelFile file = open_image_model(source_folder() / "tests/model/golden_images/gemma3/mmproj.gguf");
  const uint64_t cols = 32;
  TensorView& stored = file.tensors[file.index.at("mm.input_projection.weight")];
  std::vector<std::byte> blocks(cols * 34);  // a scale and 32 integers a row
  for (size_t row = 0; row < cols; ++row) {
    blocks[row * 34] = std::byte{0x00}, blocks[row * 34 + 1] = std::byte{0x3c};  // the scale 1 in f16
    for (size_t i = 0; i < 32; ++i) blocks[row * 34 + 2 + i] = static_cast<std::byte>(row + 2 * i);
  }
  stored.dtype = DType::q8_0;
  stored.shape = {cols, 32};
  stored.bytes = blocks;
  Config config;
  config.traits = &image_family(ImageKind::pooled);
  Tensors tensors(file, config);
  const TensorView& made = tensors.matrix("output", -1, 32, cols);
  EXPECT_EQ(made.shape, (std::vector<uint64_t>{32, cols}));
  std::vector<float> numbers(32 * cols);
  to_float(made, 0, numbers);
  for (size_t row = 0; row < 32; ++row)
    for (size_t i = 0; i < cols; ++i) ASSERT_EQ(numbers[row * cols + i], static_cast<float>(i + 2 * row)) << row;
}

// Adapters and importance matrices find a product's tensors by these lists, in a layer without weights.
TEST(Layer, ProductsAreTheMatricesThatEveryTokenGoesThrough) {
  for (const auto& family : std::filesystem::directory_iterator(source_folder() / "tests/model/golden"))
    for (const std::filesystem::path& path : {family.path(), family.path() / "model.gguf"}) {
      if (!std::filesystem::exists(path)) continue;
      const ModelFile file = open_model(path);
      Config config = read_config(file);
      Parts parts(file, config);
      for (uint32_t index = 0; index < config.layers; ++index) {
        Layer layer(config, index);
        std::set<const Matrix*> stored, products;
        for (const MatrixSource& source : parts.layer(layer, static_cast<int>(index)).matrices)
          if (source.experts == 0) stored.insert(&source.matrix);
        for (const Linear* product : layer.linears()) products.insert(&product->base);
        EXPECT_EQ(stored, products) << path.string() << ", layer " << index;
        parts.forget();
      }
    }
}

// Qwen3-Embedding-8B's configuration says that its tables are not tied, and the file has one.
TEST(Weights, EmbeddingDecodersNeedNoOutputTable) {
  ModelFile file = open_model(source_folder() / "tests/model/golden_sentences/qwen3");
  file.metadata["tie_word_embeddings"] = false;
  Config config = read_config(file);
  check_weights(file, config);
  EXPECT_EQ(config.vocab, 300u);
  file.sentence_modules = file.pooling = JsonValue();  // it says no longer that it makes embeddings
  config = read_config(file);
  try {
    check_weights(file, config);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lm_head"), std::string::npos) << error.what();
  }
}

// Rows of one number each, of which one row is another.
class OneOtherRow final : public QuantisedRows {
 public:
  explicit OneOtherRow(uint64_t row) : row_(row) {}
  const char* method() const override { return "TEST"; }
  std::span<const std::byte> stored() const override { return {}; }
  void values(uint64_t row, std::span<float> out) const override { std::ranges::fill(out, row == row_ ? 2.0f : 1.0f); }

 private:
  uint64_t row_;
};

// The integers of two folders may be the same, and their scales others.
TEST(Fingerprint, HashesNumbersOfQuantisedRows) {
  const auto with = [](uint64_t row) {
    ModelFile file;
    file.metadata = JsonValue::object();
    file.tensors.push_back({"x", DType::dequantised, {2, 3, 4}, {}, 0, std::make_shared<OneOtherRow>(row)});
    return fingerprint(file);
  };
  const uint64_t none = with(6);
  for (const uint64_t row : {0u, 3u, 5u}) EXPECT_NE(with(row), none) << row;
}

}  // namespace
}  // namespace weft
