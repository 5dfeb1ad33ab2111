// Models whose file holds the vocabulary table twice, rounded to two types.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "convert/convert.h"
#include "format/rounding_bound.h"
#include "format/safetensors.h"
#include "support/model_test.h"
#include "support/quantise.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

// A model file with its table as two tensors.
struct TwoTables {
  std::vector<float> numbers;
  std::vector<std::byte> embedding_bytes, output_bytes;
  ModelFile file;

  TwoTables(const std::filesystem::path& path, DType embedding, DType output) : file(open_model(path)) {
    const TensorView table = *file.find("token_embd.weight");
    numbers.resize(element_count(table.shape));
    to_float(table, 0, numbers);
    embedding_bytes = quantise(numbers, embedding);
    output_bytes = quantise(numbers, output);
    file.tensors[file.index.at("token_embd.weight")] = {"token_embd.weight", embedding, table.shape, embedding_bytes};
    file.index["output.weight"] = file.tensors.size();
    file.tensors.push_back({"output.weight", output, table.shape, output_bytes});
  }

  std::unique_ptr<Model> load(const std::shared_ptr<Device>& device, bool tie) const {
    Config config = read_config(file);
    DeviceFormats formats;
    formats.tie = tie;
    Weights weights = load_weights(device, file, config, formats, [](float) {});
    return std::unique_ptr<Model>(new Model{device, config, std::move(weights)});
  }
};

const std::filesystem::path kPocket = source_folder() / "apps/pocket/pocket.gguf";

// Mean negative log-likelihood of held-out dialogues, in nats a token.
double pocket_nll(const Model& model) {
  std::ifstream golden(source_folder() / "tests/model/pocket_golden.json");
  std::vector<float> all;
  for (const nlohmann::json& dialogue : nlohmann::json::parse(golden)) {
    Session session(model, model.config.context, {});
    const std::vector<float> own = session.score(dialogue.at("ids").get<std::vector<uint32_t>>());
    all.insert(all.end(), own.begin(), own.end());
    if (all.size() > 300) break;
  }
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

void say_tied(const std::filesystem::path& config_file) {
  nlohmann::json config = nlohmann::json::parse(std::ifstream(config_file));
  config["tie_word_embeddings"] = true;
  std::ofstream(config_file) << config;
}

// Gives a tensor of a safetensors file the bytes of another.
void copy_tensor(const std::filesystem::path& path, const std::string& from, const std::string& to) {
  std::vector<std::byte> bytes;
  {
    const MappedFile file(path);
    bytes.assign(file.bytes().begin(), file.bytes().end());
  }
  const std::vector<TensorView> tensors = parse_safetensors(bytes, path.string());
  const TensorView& source = *std::ranges::find(tensors, from, &TensorView::name);
  const TensorView& target = *std::ranges::find(tensors, to, &TensorView::name);
  std::memcpy(bytes.data() + (target.bytes.data() - bytes.data()), source.bytes.data(), source.bytes.size());
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

class TiedTest : public GpuTest {};

// Pocket's table is Q8_0: with it for both uses the model is the one that was rounded to make the other.
TEST_F(TiedTest, TheFinerTableServesBothUses) {
  const auto original = load_model(open_device(), kPocket, {});
  const double nll = pocket_nll(*original);
  for (const bool output_finer : {true, false}) {
    const TwoTables two(kPocket, output_finer ? DType::q5_0 : DType::q8_0, output_finer ? DType::q8_0 : DType::q5_0);
    const auto tied = two.load(open_device(), true);
    ASSERT_TRUE(tied->weights.tie);
    EXPECT_EQ(tied->weights.tie->kept, output_finer ? "output.weight" : "token_embd.weight");
    EXPECT_EQ(tied->weights.tie->left_out, output_finer ? "token_embd.weight" : "output.weight");
    EXPECT_GT(tied->weights.tie->difference, 0.02);
    EXPECT_LT(tied->weights.tie->difference, 0.08);
    EXPECT_TRUE(tied->weights.tied());
    EXPECT_EQ(tied->weights.vocab_bytes(), original->weights.vocab_bytes());
    EXPECT_EQ(tied->parameters(), original->parameters());
    EXPECT_EQ(pocket_nll(*tied), nll);

    const auto apart = two.load(open_device(), false);
    EXPECT_FALSE(apart->weights.tie);
    EXPECT_FALSE(apart->weights.tied());
    // The one that is not projected on has no notes.
    EXPECT_EQ(apart->weights.embedding->matrix().layout, Layout::values);
    EXPECT_EQ(apart->weights.vocab_bytes(),
              original->weights.vocab_bytes() + apart->weights.embedding->matrix().bytes());
    const double apart_nll = pocket_nll(*apart);
    RecordProperty(output_finer ? "embedding_rounded" : "output_rounded", std::to_string(apart_nll - nll));
    std::cout << "nll " << nll << ", " << (output_finer ? "embedding" : "output") << " rounded to Q5_0: " << apart_nll
              << "\n";
    EXPECT_NE(apart_nll, nll);
  }
}

TEST_F(TiedTest, AMemoryBudgetCountsOneTable) {
  const TwoTables two(kPocket, DType::q5_0, DType::q8_0);
  const uint64_t bytes = two.load(open_device(), true)->weights.device_bytes();
  const auto device = Device::open({}, [&](const Caps&) {
    Plan plan = open_device()->plan();
    plan.memory_budget = bytes / 3 * 4 + (64 << 10);  // weights may take three quarters
    return plan;
  });
  EXPECT_EQ(two.load(device, true)->weights.streamed_bytes(), 0u);
  EXPECT_GT(two.load(device, false)->weights.streamed_bytes(), 0u);
}

TEST_F(TiedTest, UntiedTablesStayApart) {
  const TemporaryFolder folder;
  LlamaShape shape;
  shape.tied = false;
  for (const DType type : kDTypes) {
    if (!has_rounding_bounds(type) && type != DType::iq4_nl && type != DType::iq2_s)
      continue;  // two of these say enough
    shape.width = is_quantised(type) ? 256 : 64;
    make_gguf(folder.path() / "m.gguf", shape, {type, 7, ""});
    const auto model = load_model(open_device(), folder.path() / "m.gguf", {});
    EXPECT_FALSE(model->weights.tied()) << name(type);
    EXPECT_FALSE(model->weights.tie) << name(type);
  }
}

// Transformers 5 takes what is stored, whatever the configuration says.
TEST_F(TiedTest, TablesThatDifferStayApartInAModelSaidToBeTied) {
  const TemporaryFolder folder;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const auto path = folder.path() / name(type);
    LlamaShape shape;
    shape.tied = false;
    make_huggingface(path, shape, {type, 7, ""});
    const std::vector<uint32_t> ids = {1, 300, 7, 41, 500, 9};
    const auto score = [&](const std::filesystem::path& file) {
      const auto model = load_model(open_device(), file, {});
      EXPECT_FALSE(model->weights.tied()) << name(type);
      return std::pair(Session(*model, 64, {}).score(ids), model->weights.untied_by_tensors);
    };
    const auto [apart, none_said] = score(path);
    EXPECT_FALSE(none_said);
    say_tied(path / "config.json");
    const auto [said_tied, said] = score(path);
    EXPECT_TRUE(said);
    EXPECT_EQ(said_tied, apart) << name(type);
    convert(path, folder.path() / "converted.gguf", {FileType::f16, FileType::f16, true}, [](float) {});
    const std::vector<float> converted = score(folder.path() / "converted.gguf").first;
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(converted[i], apart[i], 1e-3) << name(type);
    copy_tensor(path / "model.safetensors", "model.embed_tokens.weight", "lm_head.weight");
    const auto one = load_model(open_device(), path, {});
    EXPECT_TRUE(one->weights.tied()) << name(type);
    EXPECT_FALSE(one->weights.untied_by_tensors) << name(type);
    convert(path, folder.path() / "one.gguf", {FileType::f16, FileType::f16, true}, [](float) {});
    EXPECT_EQ(open_model(folder.path() / "one.gguf").find("output.weight"), nullptr) << name(type);
  }
}

// A folder may say that its tables are not tied and have the same one twice.
TEST_F(TiedTest, OneTableStoredTwiceWritesTexts) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "model";
  LlamaShape shape;
  shape.tied = false;
  make_huggingface(path, shape, {DType::f16, 7, ""});
  copy_tensor(path / "model.safetensors", "model.embed_tokens.weight", "lm_head.weight");
  const auto model = load_model(open_device(), path, {});
  EXPECT_TRUE(model->weights.tied());
  Session session(*model, 64, {});
  EXPECT_EQ(generate(session, {1, 300, 7}, 4).size(), 4u);
}

TEST_F(TiedTest, ARealTable) {
  const auto path = real_model("smollm2");
  if (!path) GTEST_SKIP() << "./run model smollm2 was not run";
  for (const DType coarser : {DType::q5_0, DType::q4_1}) {
    TwoTables two(*path, coarser, DType::q8_0);
    const auto model = two.load(open_device(), true);
    ASSERT_TRUE(model->weights.tie) << name(coarser);
    EXPECT_EQ(model->weights.tie->kept, "output.weight");
    // One number of the last row is moved by a quarter of its block's range.
    two.numbers[two.numbers.size() - 16] +=
        0.5f *
        std::abs(*std::ranges::max_element(std::span(two.numbers).last(32), {}, [](float x) { return std::abs(x); }));
    const std::vector<std::byte> moved = quantise(std::span(two.numbers).last(576), coarser);
    std::ranges::copy(moved, two.embedding_bytes.end() - static_cast<ptrdiff_t>(moved.size()));
    EXPECT_FALSE(two.load(open_device(), true)->weights.tied()) << name(coarser);
  }
}

}  // namespace
}  // namespace weft::test
