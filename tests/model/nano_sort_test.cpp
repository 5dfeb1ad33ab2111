// gpt-nano-sort (../shared/models, https://github.com/karpathy/minGPT's demo as JSON): three layers that sort six
// digits. Its partial activations are from PyTorch in fp32, so the operations get what they need of fp32's precision: a
// weight, a key or a value is the sum of two halves.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "support/json_value.h"
#include "support/model_test.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

using nlohmann::json;
using ops::Output;

struct Tensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

std::vector<float> floats_of_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes;
  uint32_t bits = 0, count = 0;
  for (const char digit : text.substr(0, text.find('='))) {
    const size_t value = kDigits.find(digit);
    if (value == kDigits.npos) throw std::runtime_error("no base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (count += 6; count >= 8) bytes.push_back(static_cast<std::byte>(bits >> (count -= 8) & 0xff));
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Tensors read_tensors(const std::filesystem::path& path) {
  std::ifstream file(path);
  Tensors tensors;
  const json document = json::parse(file);
  for (const auto& [name, value] : document.items()) {
    if (name == "config") continue;
    tensors[name] = {value.at("shape"), floats_of_base64(value.at("data"))};
    if (element_count(tensors[name].shape) != tensors[name].values.size()) throw std::runtime_error(name);
  }
  return tensors;
}

constexpr uint32_t kWidth = 48, kLayers = 3, kHeads = 3, kHeadDim = 16, kVocab = 3, kPositions = 11, kTexts = 3;

class NanoSortTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    const auto shared = shared_folder();
    if (!shared) GTEST_SKIP() << "no ../shared here";
    folder_ = *shared / "models/gpt-nano-sort";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no gpt-nano-sort in ../shared";
    weights_ = read_tensors(folder_ / "gpt-nano-sort-model.json");
  }

  std::filesystem::path folder_;
  Tensors weights_;
};

// ---- Sorting, as a model of the family GPT-2 ----

// GPT-2 has the layers' matrices transposed; and one position more, so that the context holds the whole answer: that
// position is never read.
ModelFile gpt2_file(Tensors& tensors) {
  tensors["transformer.wpe.weight"].shape[0] += 1;
  tensors["transformer.wpe.weight"].values.resize((kPositions + 1) * kWidth);
  ModelFile file;
  file.kind = ModelFile::Kind::huggingface;
  file.path = "gpt-nano-sort";
  file.metadata = {{"model_type", "gpt2"},        {"n_embd", kWidth},
                   {"n_layer", kLayers},          {"n_head", kHeads},
                   {"vocab_size", kVocab},        {"n_positions", kPositions + 1},
                   {"n_inner", 4 * kWidth},       {"activation_function", "gelu_new"},
                   {"tie_word_embeddings", false}};
  for (auto& [name, tensor] : tensors) {
    if (name.find(".c_") != name.npos && tensor.shape.size() == 2) {
      const Tensor before = tensor;
      const uint64_t rows = before.shape[0], cols = before.shape[1];
      tensor.shape = {cols, rows};
      for (uint64_t i = 0; i < rows * cols; ++i) tensor.values[i % cols * rows + i / cols] = before.values[i];
    }
    file.index[name] = file.tensors.size();
    file.tensors.push_back({name, DType::f32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  return file;
}

TEST_F(NanoSortTest, Sorts60Of60) {
  const ModelFile file = gpt2_file(weights_);
  Config config = read_config(file);
  Weights weights = load_weights(open_device(), file, config, Format::f16, [](float) {});
  const Model model = {open_device(), config, std::move(weights)};
  Session session(model, kPositions + 1, {});
  session.set_sampling(greedy());
  Random random(1);
  uint32_t sorted = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    std::vector<uint32_t> digits(6);
    for (uint32_t& digit : digits) digit = random.below(kVocab);
    const std::vector<uint32_t> answer = generate(session, digits, 6);
    std::ranges::sort(digits);
    sorted += answer == digits;
  }
  EXPECT_EQ(sorted, 60u);
}

// ---- The partial activations, operation by operation ----

std::vector<float> low_part(const std::vector<float>& values) {  // what rounding to halves leaves
  std::vector<float> low;
  for (const float value : values) low.push_back(value - half_to_float(float_to_half(value)));
  return low;
}

// The operations over one text of kPositions tokens, their inputs and outputs (kPositions, cols) on the CPU.
class Network {
 public:
  explicit Network(const Tensors& weights) : weights_(weights) {
    tokens_ = static_cast<uint32_t>(align_up(kPositions, device_->plan().block_tokens));
    state_ = make_state(device_, 0, kPositions, kPositions);
  }

  reference::Rows gather(const std::vector<uint32_t>& ids) {
    const Tensor& table = weights_.at("transformer.wte.weight");
    const Buffer history = upload(device_, "history", ids);
    reference::Rows sum(kPositions, kWidth);
    for (const std::vector<float>& values : {table.values, low_part(table.values)}) {
      const TensorView view = {"wte", DType::f32, table.shape, std::as_bytes(std::span(values))};
      const Tiled tiled = tile(device_, Format::f16, kVocab, kWidth, view);
      const reference::Rows part =
          run(kWidth, [&](Recorder& r, const Buffer& y) { ops::gather(r, tiled.matrix, state_, history, y, tokens_); });
      for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += part.values[i];
    }
    return sum;
  }

  reference::Rows position(const reference::Rows& x) {
    const Buffer table = upload(device_, "positions", weights_.at("transformer.wpe.weight").values);
    const Activations in = make_activations(device_, tokens_, x);
    return read(in.buffer, kWidth,
                [&](Recorder& r) { ops::add_positions(r, state_, table, in.buffer, kWidth, tokens_); });
  }

  reference::Rows norm(const std::string& name, const reference::Rows& x) {
    std::vector<float> both = weights_.at(name + ".weight").values;
    const std::vector<float>& bias = weights_.at(name + ".bias").values;
    both.insert(both.end(), bias.begin(), bias.end());
    const Buffer weight = upload(device_, "norm", both);
    const Activations in = make_activations(device_, tokens_, x);
    return run(kWidth, [&](Recorder& r, const Buffer& y) {
      ops::norm(r, {kWidth, 1e-5f, ops::NormKind::layer}, state_, in.buffer, weight, y, tokens_, false);
    });
  }

  // y + weights x + bias.
  reference::Rows linear(const std::string& name, const reference::Rows& x, const reference::Rows* y = nullptr) {
    const Tensor& weight = weights_.at(name + ".weight");
    const uint32_t rows = static_cast<uint32_t>(weight.shape[0]), cols = static_cast<uint32_t>(weight.shape[1]);
    const auto bias = weights_.find(name + ".bias");
    const Buffer biases =
        upload(device_, "bias", bias == weights_.end() ? std::vector<float>(rows) : bias->second.values);
    const std::vector<float> low = low_part(weight.values);
    Tiled high_tiled = tile(device_, Format::f16, rows, cols, view_of(weight, weight.values)),
          low_tiled = tile(device_, Format::f16, rows, cols, view_of(weight, low));
    high_tiled.matrix.bias = biases;
    const Activations in = make_activations(device_, tokens_, x),
                      out = make_activations(device_, tokens_, y ? *y : reference::Rows(kPositions, rows));
    return read(out.buffer, rows, [&](Recorder& r) {
      ops::matmul(r, high_tiled.matrix, state_, in.buffer, out.buffer, tokens_, Output::add);
      ops::matmul(r, low_tiled.matrix, state_, in.buffer, out.buffer, tokens_, Output::add);
    });
  }

  // qkv (positions, q k v). A head twice as wide has (q, q), (high k, low k) and (high v, low v): its scores are q k,
  // and its two halves' sum is the result. identity: of positions instead of values, which gives the softmax itself.
  reference::Rows attention(const reference::Rows& qkv, bool identity) {
    constexpr uint32_t kWide = 2 * kHeadDim;
    const ops::HeadShape shape = {kHeads, kHeads, kWide};
    reference::Rows wide(kPositions, 3 * kHeads * kWide);
    for (uint32_t t = 0; t < kPositions; ++t)
      for (uint32_t part = 0; part < 3; ++part)
        for (uint32_t i = 0; i < kWidth; ++i) {
          const uint32_t at = part * kHeads * kWide + i / kHeadDim * kWide + i % kHeadDim;
          const float value = static_cast<float>(qkv.row(t)[part * kWidth + i]);
          const float high = part == 0 ? value : half_to_float(float_to_half(value));
          wide.row(t)[at] = high;
          wide.row(t)[at + kHeadDim] = part == 0 ? value : value - high;
          if (part < 2 || !identity) continue;
          wide.row(t)[at] = i % kHeadDim == t;
          wide.row(t)[at + kHeadDim] = 0;
        }
    const Activations in = make_activations(device_, tokens_, wide);
    constexpr uint32_t kCapacity = TILE_ROWS;
    const Buffer keys(device_, "keys", ops::key_bytes(shape, kCapacity), Memory::device),
        values(device_, "values", ops::value_bytes(shape, kCapacity), Memory::device),
        q = poisoned(device_, "q", uint64_t{tokens_} * stride_of(kHeads * kWide)),
        rope_table(device_, "rope_table", 8, Memory::device);
    const ops::CacheView cache = {keys, values, kCapacity};
    const reference::Rows y = run(kHeads * kWide, [&](Recorder& r, const Buffer& out) {
      ops::rope(r, shape, ops::Pairs::halves, 0, state_, in.buffer, rope_table, q, cache, tokens_);
      ops::attend(r, shape, {1 / std::sqrt(float{kHeadDim})}, state_, q, cache, out, tokens_);
    });
    reference::Rows sum(kPositions, kWidth);
    for (uint32_t t = 0; t < kPositions; ++t)
      for (uint32_t i = 0; i < kWidth; ++i) {
        const uint32_t at = i / kHeadDim * kWide + i % kHeadDim;
        sum.row(t)[i] = y.row(t)[at] + y.row(t)[at + kHeadDim];
      }
    return sum;
  }

  reference::Rows gelu(const reference::Rows& x) {
    const Activations in = make_activations(device_, tokens_, x);
    return run(x.cols, [&](Recorder& r, const Buffer& y) {
      ops::activate(r, ops::Activation::gelu_tanh, false, state_, in.buffer, y, x.cols, tokens_);
    });
  }

 private:
  static TensorView view_of(const Tensor& tensor, const std::vector<float>& values) {
    return {"weights", DType::f32, tensor.shape, std::as_bytes(std::span(values))};
  }
  template <class Commands>
  reference::Rows run(uint32_t cols, const Commands& commands) {
    const Buffer y = poisoned(device_, "y", uint64_t{tokens_} * stride_of(cols));
    return read(y, cols, [&](Recorder& r) { commands(r, y); });
  }
  reference::Rows read(const Buffer& buffer, uint32_t cols, const std::function<void(Recorder&)>& commands) {
    run_once(device_, "step", commands);
    const std::vector<float> values = download_as<float>(device_, buffer);
    reference::Rows rows(kPositions, cols);
    for (uint32_t t = 0; t < kPositions; ++t)
      for (uint32_t i = 0; i < cols; ++i) rows.row(t)[i] = values[t * stride_of(cols) + i];
    return rows;
  }

  std::shared_ptr<Device> device_ = open_device();
  const Tensors& weights_;
  uint32_t tokens_ = 0;
  Buffer state_;
};

// Compares with the text's part of a tensor (texts, positions, cols), or (texts, heads, positions, cols / heads).
void expect_near(const Tensor& want, uint32_t text, const reference::Rows& got, const char* what, uint32_t heads = 1) {
  ASSERT_EQ(want.values.size(), size_t{kTexts} * kPositions * got.cols) << what;
  const uint32_t own = got.cols / heads;
  double worst = 0;
  for (uint32_t t = 0; t < kPositions; ++t)
    for (uint32_t i = 0; i < got.cols; ++i) {
      const size_t at = ((size_t{text} * heads + i / own) * kPositions + t) * own + i % own;
      worst = std::max(worst, std::abs(got.row(t)[i] - want.values[at]) / std::max(1.0f, std::abs(want.values[at])));
    }
  std::printf("text %u %s: %.1e\n", text, what, worst);
  EXPECT_LT(worst, 1e-5) << what << " of text " << text;
}

// Columns [from, from + count), of each of the heads.
reference::Rows columns(const reference::Rows& rows, uint32_t from, uint32_t count, uint32_t heads = 1) {
  const uint32_t width = rows.cols / heads;
  reference::Rows cut(rows.rows, count * heads);
  for (uint32_t t = 0; t < rows.rows; ++t)
    for (uint32_t i = 0; i < count * heads; ++i) cut.row(t)[i] = rows.row(t)[i / count * width + from + i % count];
  return cut;
}

TEST_F(NanoSortTest, PartialActivationsTo1e5) {
  const Tensors partials = read_tensors(folder_ / "gpt-nano-sort-t0-partials.json");
  Network net(weights_);
  for (uint32_t text = 0; text < kTexts; ++text) {
    const auto near = [&](const char* name, const reference::Rows& got, uint32_t heads = 1) {
      expect_near(partials.at(name), text, got, name, heads);
    };
    const float* const ids = &partials.at("idx").values[text * kPositions];
    const reference::Rows embedded = net.gather(std::vector<uint32_t>(ids, ids + kPositions));
    near("tok_emb", embedded);
    reference::Rows x = net.position(embedded);
    near("x", x);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::string h = "transformer.h." + std::to_string(layer) + ".";
      const reference::Rows ln1 = net.norm(h + "ln_1", x), qkv = net.linear(h + "attn.c_attn", ln1);
      const reference::Rows y = net.attention(qkv, false), resid = net.linear(h + "attn.c_proj", y, &x);
      const reference::Rows ln2 = net.norm(h + "ln_2", resid), fc = net.linear(h + "mlp.c_fc", ln2);
      const reference::Rows gelu = net.gelu(fc), out = net.linear(h + "mlp.c_proj", gelu, &resid);
      if (layer == 0) {
        near("ln1", ln1);
        near("qkv", qkv);
        near("q", columns(qkv, 0, kWidth), kHeads);
        near("k", columns(qkv, kWidth, kWidth), kHeads);
        near("v", columns(qkv, 2 * kWidth, kWidth), kHeads);
        near("attSm", columns(net.attention(qkv, true), 0, kPositions, kHeads), kHeads);
        near("y", y);
        near("yProj", net.linear(h + "attn.c_proj", y));
        near("attnResid", resid);
        near("ln2", ln2);
        near("fc", fc);
        near("gelu", gelu);
        near("mlp", net.linear(h + "mlp.c_proj", gelu));
        near("mlpResid", out);
      }
      near(("block" + std::to_string(layer)).c_str(), out);
      x = out;
    }
    const reference::Rows last = net.norm("transformer.ln_f", x);
    near("ln_f", last);
    near("lm_head", net.linear("lm_head", last));
  }
}

}  // namespace
}  // namespace weft::test
