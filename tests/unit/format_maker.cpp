// The model maker: both formats hold one network, and the readers take it.
#include <cmath>
#include <set>
#include <stdexcept>

#include "format/model_file.h"
#include "format_support.h"
#include "support/json_value.h"
#include "support/model_maker.h"

namespace weft {
namespace {

LlamaShape small_shape() {
  LlamaShape shape;
  shape.ffn = 172;  // no multiple of 32
  shape.vocab = 300;
  shape.tied = false;
  return shape;
}

struct Made : TestFolder {
  ModelFile gguf, huggingface;
  explicit Made(const LlamaShape& shape, DType type) {
    make_gguf(*this / "m.gguf", shape, {.type = type, .seed = 7, .chat_template = "{{ messages }}"});
    make_huggingface(*this / "m", shape, {.type = type, .seed = 7, .chat_template = "{{ messages }}"});
    gguf = open_model(*this / "m.gguf");
    huggingface = open_model(*this / "m");
  }
};

TEST(ModelMaker, BothFormatsHoldTheSameNumbers) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const Made made(small_shape(), type);
    const std::pair<const char*, const char*> same[] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
        {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
        {"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        {"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"},
        {"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight"},
        {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"output.weight", "lm_head.weight"}};
    for (const auto& [gguf, huggingface] : same) {
      const TensorView *a = made.gguf.find(gguf), *b = made.huggingface.find(huggingface);
      ASSERT_TRUE(a && b) << gguf;
      EXPECT_EQ(a->shape, b->shape) << gguf;
      EXPECT_EQ(floats_of(*a), floats_of(*b)) << gguf;
    }
    EXPECT_EQ(made.gguf.tensors.size(), made.huggingface.tensors.size());
  }
}

// Rotating adjacent pairs of GGUF's rows must be rotating halves of Hugging Face's: row 2i of a head is row i there,
// row 2i + 1 is row i + half.
TEST(ModelMaker, QueriesAndKeysAreReorderedForTheirRotation) {
  const Made made(small_shape(), DType::f32);
  const int head_width = 16, columns = 64;
  const auto check = [&](const char* gguf, const char* huggingface, int heads) {
    const auto a = floats_of(*made.gguf.find(gguf)), b = floats_of(*made.huggingface.find(huggingface));
    for (int head = 0; head < heads; ++head) {
      for (int i = 0; i < head_width / 2; ++i) {
        for (int half = 0; half < 2; ++half) {
          for (int c = 0; c < columns; ++c) {
            const int row_a = head * head_width + 2 * i + half, row_b = head * head_width + i + half * head_width / 2;
            ASSERT_EQ(a[row_a * columns + c], b[row_b * columns + c]) << gguf << " " << row_a;
          }
        }
      }
    }
  };
  check("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", 4);
  check("blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight", 2);
}

TEST(ModelMaker, WeightsAreRandomOfTheRightScaleAndRepeatable) {
  std::vector<float> row(4096), again(4096), other(4096);
  made_row("a.weight", false, 1, 5, row);
  made_row("a.weight", false, 1, 5, again);
  EXPECT_EQ(row, again);
  double sum = 0, squares = 0;
  for (const float value : row) sum += value, squares += value * value;
  EXPECT_NEAR(sum / 64, 0, 4.0);  // a sum of 4,096 with deviation 1/64 has deviation 1
  EXPECT_NEAR(squares, 1, 0.1);
  const auto differs = [&](const char* name, uint64_t seed, uint64_t index) {
    made_row(name, false, seed, index, other);
    double product = 0;
    for (int i = 0; i < 4096; ++i) product += row[i] * other[i];
    EXPECT_LT(std::fabs(product), 0.1);  // deviation 1/64
  };
  differs("b.weight", 1, 5);
  differs("a.weight", 2, 5);
  differs("a.weight", 1, 6);
}

TEST(ModelMaker, Q8IsCloseToTheWeightsAndWidthsThatDoNotFitBecomeF16) {
  const TestFolder folder;
  make_gguf(folder / "m.gguf", small_shape(), {.type = DType::q8_0, .seed = 7});
  const ModelFile model = open_model(folder / "m.gguf");
  const TensorView& table = *model.find("token_embd.weight");
  EXPECT_EQ(table.dtype, DType::q8_0);
  EXPECT_EQ(model.find("blk.0.ffn_down.weight")->dtype, DType::f16);
  EXPECT_EQ(model.find("blk.0.attn_norm.weight")->dtype, DType::f32);
  const auto values = floats_of(table);
  std::vector<float> exact(64);
  for (int r = 0; r < 300; ++r) {
    made_row("model.embed_tokens.weight", false, 7, r, exact);
    for (int c = 0; c < 64; ++c) {
      float largest = 0;
      for (int k = c / 32 * 32; k < c / 32 * 32 + 32; ++k) largest = std::max(largest, std::fabs(exact[k]));
      ASSERT_NEAR(values[r * 64 + c], exact[c], largest / 127 * 0.51) << r << " " << c;
    }
  }
}

TEST(ModelMaker, BlocksOfAnyTypeHaveTheWeightsDeviation) {
  const TestFolder folder;
  LlamaShape shape;
  shape.width = 256;
  for (const DType type : kDTypes) {
    make_gguf(folder / "m.gguf", shape, {.type = type, .seed = 7});
    const ModelFile model = open_model(folder / "m.gguf");
    const TensorView& table = *model.find("token_embd.weight");
    ASSERT_EQ(table.dtype, type);
    double sum = 0, squares = 0;
    for (const float value : floats_of(table)) sum += value, squares += double{value} * value;
    const double count = 512.0 * 256;
    EXPECT_NEAR(std::sqrt(squares / count) * 16, 1, 0.2) << name(type);
    EXPECT_NEAR(sum / count * 16, 0, 0.15) << name(type);  // 4 bits are -8 .. 7: -0.11
  }
}

TEST(ModelMaker, TheMetadataDescribeTheShape) {
  LlamaShape shape = small_shape();
  shape.head_dim = 32;
  shape.tied = true;
  const Made made(shape, DType::f16);
  const auto &gguf = made.gguf.metadata, &config = made.huggingface.metadata;
  EXPECT_EQ(gguf["general.architecture"], "llama");
  EXPECT_EQ(gguf["llama.block_count"], 2);
  EXPECT_EQ(gguf["llama.attention.head_count_kv"], 2);
  EXPECT_EQ(gguf["llama.rope.dimension_count"], 32);
  EXPECT_EQ(config["head_dim"], 32);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(made.gguf.find("output.weight"), nullptr);
  EXPECT_EQ(made.huggingface.find("lm_head.weight"), nullptr);
  EXPECT_EQ(made.gguf.find("blk.0.attn_q.weight")->shape, (std::vector<uint64_t>{128, 64}));
  EXPECT_EQ(gguf["tokenizer.chat_template"], "{{ messages }}");
  EXPECT_EQ(made.huggingface.tokenizer_config["chat_template"], "{{ messages }}");
}

TEST(ModelMaker, BothTokenizersHoldTheSameVocabulary) {
  LlamaShape shape = small_shape();
  shape.vocab = 3 + 256 + 27 + 729 + 40;  // some words of three characters too
  const Made made(shape, DType::f16);
  std::vector<std::string> tokens;
  for (const JsonValue& token : made.gguf.metadata["tokenizer.ggml.tokens"].items()) tokens.push_back(token.text());
  ASSERT_EQ(tokens.size(), shape.vocab);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), tokens.size());
  EXPECT_EQ(tokens[1], "<s>");
  EXPECT_EQ(tokens[3], "<0x00>");
  EXPECT_EQ(tokens[258], "<0xFF>");
  EXPECT_EQ(tokens[259], "▁");
  EXPECT_EQ(tokens[260], "a");
  EXPECT_EQ(tokens[286], "▁▁");
  const auto& types = made.gguf.metadata["tokenizer.ggml.token_type"];
  EXPECT_EQ(types[0], 2);
  EXPECT_EQ(types[1], 3);
  EXPECT_EQ(types[3], 6);
  EXPECT_EQ(types[259], 1);
  const auto& scores = made.gguf.metadata["tokenizer.ggml.scores"];
  const nlohmann::json model = made.huggingface.tokenizer["model"];
  for (uint32_t id = 0; id < shape.vocab; ++id) {
    EXPECT_EQ(model["vocab"].at(tokens[id]), id);
    if (id > 259) {
      EXPECT_LT(scores[id].get<float>(), scores[id - 1].get<float>());
    }
  }
  // Each merge makes a token, in the order of the tokens' ids.
  uint32_t last = 0;
  for (const auto& merge : model["merges"]) {
    std::string text = merge;
    text.erase(text.find(' '), 1);
    const uint32_t id = model["vocab"].at(text);
    EXPECT_LE(last, id);
    last = id;
  }
  EXPECT_EQ(last, shape.vocab - 1);
}

TEST(ModelMaker, KnowsTheShapesByName) {
  const LlamaShape shape = named_shape("135m");
  EXPECT_EQ(shape.width, 576u);
  EXPECT_EQ(shape.layers, 30u);
  EXPECT_EQ(shape.vocab, 49152u);
  EXPECT_TRUE(shape.tied);
  EXPECT_EQ(named_shape("gemma270m").head_width(), 256u);
  EXPECT_FALSE(named_shape("8b").tied);
  EXPECT_THROW(named_shape("enormous"), std::invalid_argument);
}

TEST(ModelMaker, RefusesShapesThatAreNone) {
  const TestFolder folder;
  LlamaShape shape;
  shape.kv_heads = 3;
  EXPECT_THROW(make_gguf(folder / "m.gguf", shape), std::invalid_argument);
  EXPECT_THROW(make_huggingface(folder / "m", LlamaShape{}, {.type = DType::q8_0}), std::invalid_argument);
  EXPECT_THROW(make_gguf(folder / "absent/m.gguf", LlamaShape{}), std::runtime_error);
}

}  // namespace
}  // namespace weft
