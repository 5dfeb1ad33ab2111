// The logit lens: every family against Hugging Face Transformers (tests/tools/lens_goldens.py), and against the model's
// own logits after its last layer.
#include "run/lens.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/closeness.h"
#include "support/model_test.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

const std::filesystem::path kTests = source_folder() / "tests/model";
constexpr uint32_t kContext = 256;
constexpr double kTolerance = 2e-3;  // of f16's logits, in units of the spread, as tests/model/families_test.cpp has it

struct Row {
  uint32_t layer, position;
  std::vector<float> hidden, logits;
};

std::vector<Row> lens(Session& session, const LensRange& range) {
  std::vector<Row> rows;
  EXPECT_TRUE(session.lens(range, [&](const LensRow& row) {
    rows.push_back(
        {row.layer, row.position, {row.hidden.begin(), row.hidden.end()}, {row.logits.begin(), row.logits.end()}});
    return true;
  }));
  return rows;
}

LensRange everything(const Session& session) {
  LensRange range = {0, session.ids().size(), {}};
  for (uint32_t layer = 0; layer <= session.model().config.layers; ++layer) range.layers.push_back(layer);
  return range;
}

const json& goldens() {
  static const json all = json::parse(std::ifstream(kTests / "golden_lens.json"));
  return all;
}

std::filesystem::path folder_of(const std::string& model) {
  const std::filesystem::path decoder = kTests / "golden" / model;
  return std::filesystem::exists(decoder) ? decoder : kTests / "golden_seq2seq" / model;
}

// Not all of the tiny models: many differ only in what a lens does not see.
std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& item : goldens().items()) names.push_back(item.key());
  return names;
}

void prompt(Session& session, const json& golden) {
  if (golden.contains("ids"))
    session.prompt(golden["ids"].get<Ids>());
  else
    session.prompt(golden["source"].get<Ids>(), golden["written"].get<Ids>());
}

class LensTest : public GpuTest {};
class LensFamiliesTest : public LensTest, public testing::WithParamInterface<std::string> {
 protected:
  const json& golden_ = goldens().at(GetParam());
  const uint32_t context_ = golden_.contains("ids") ? kContext : 160;  // BART's decoder has 200 positions
};

TEST_P(LensFamiliesTest, EqualsTransformersAfterEveryLayer) {
  const auto model = load_model(open_device(), folder_of(GetParam()), Format::f16);
  Session session(*model, context_, {});
  prompt(session, golden_);
  LensRange range = everything(session);
  range.first = golden_["position"], range.count = 1;
  const std::vector<Row> rows = lens(session, range);
  ASSERT_EQ(rows.size(), golden_["layers"].size());
  double worst = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const json& want = golden_["layers"][i];
    EXPECT_EQ(rows[i].layer, i);
    EXPECT_EQ(rows[i].position, range.first);
    EXPECT_EQ(rows[i].hidden.size(), model->config.width);
    const std::vector<double> hidden = want["hidden"];
    const double far = distance(hidden, {rows[i].hidden.begin(), rows[i].hidden.begin() + 8});
    EXPECT_LT(far, 2 * kTolerance) << "hidden, layer " << i;
    const double off = distance(want["logits"].get<std::vector<double>>(), rows[i].logits);
    EXPECT_LT(off, kTolerance) << "logits, layer " << i;
    worst = std::max(worst, off);
  }
  std::printf("%s: %.1e of the spread\n", GetParam().c_str(), worst);
}

// At every position; in both types that the products of a table have, q8 with two of the models.
TEST_P(LensFamiliesTest, IsTheModelAfterTheLastLayer) {
  const bool both = GetParam() == "gemma3" || GetParam() == "gpt2";
  for (const Format format : {Format::f16, Format::q8}) {
    if (format == Format::q8 && !both) continue;
    const auto model = load_model(open_device(), folder_of(GetParam()), format);
    Session session(*model, context_, {}), other(*model, context_, {});
    prompt(session, golden_);
    const uint32_t count = static_cast<uint32_t>(session.ids().size());
    const std::vector<Row> rows = lens(session, {0, count, {model->config.layers}});
    ASSERT_EQ(rows.size(), count);
    for (const uint32_t position : {0u, count / 2, count - 1}) {
      const std::span<const uint32_t> ids = std::span(session.ids()).first(position + 1);
      if (golden_.contains("ids"))
        other.prompt(ids);
      else
        other.prompt(golden_["source"].get<Ids>(), ids.subspan(1));
      const std::vector<float> logits = other.logits();
      // Passes of one token and of several are rounded apart.
      EXPECT_LT(distance({logits.begin(), logits.end()}, rows[position].logits), 1e-4) << position;
    }
  }
}

std::string underscored(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, LensFamiliesTest, testing::ValuesIn(model_names()), underscored);

TEST_F(LensTest, TellsWhatIsAskedForInItsOrder) {
  const auto model = load_model(open_device(), folder_of("gemma3"), Format::q8);  // windows of 24, and seven layers
  Session session(*model, kContext, {});
  const Ids ids = some_ids(250, model->config.vocab);  // more than the rings of a window hold
  session.prompt(ids);
  const std::vector<Row> all = lens(session, everything(session));
  ASSERT_EQ(all.size(), 250 * 8);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].position, i / 8);
    EXPECT_EQ(all[i].layer, i % 8);
  }
  // Before and after the cache has what comes before them; within a chunk, across two, and of one token.
  for (const auto& [first, count] : {std::pair{240u, 10u}, {0u, 3u}, {60u, 70u}, {249u, 1u}, {63u, 2u}, {64u, 64u}}) {
    const std::vector<uint32_t> layers = {7, 2, 0, 2, 5};
    const std::vector<Row> some = lens(session, {first, count, layers});
    ASSERT_EQ(some.size(), count * layers.size());
    for (size_t i = 0; i < some.size(); ++i) {
      const Row& want = all[(first + i / 5) * 8 + layers[i % 5]];
      ASSERT_EQ(some[i].position, want.position);
      ASSERT_EQ(some[i].layer, want.layer);
      ASSERT_LT(distance({want.logits.begin(), want.logits.end()}, some[i].logits), 1e-5) << first << " " << i;
      ASSERT_LT(distance({want.hidden.begin(), want.hidden.end()}, some[i].hidden), 1e-5) << first << " " << i;
    }
  }
  LensRange range = everything(session);
  range.logits = false;
  const std::vector<Row> states = lens(session, range);
  ASSERT_EQ(states.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(states[i].logits.empty());
    ASSERT_LT(distance({all[i].hidden.begin(), all[i].hidden.end()}, states[i].hidden), 1e-5) << i;
  }
}

// The text goes on as if nobody had looked; the rows end when the callback returns false.
TEST_F(LensTest, LeavesTheSessionAsItWas) {
  const auto model = load_model(open_device(), folder_of("mistral"), Format::q8);
  Session session(*model, kContext, {}), alone(*model, kContext, {});
  const Ids ids = some_ids(100, model->config.vocab);
  for (Session* one : {&session, &alone}) {
    one->set_sampling({0.9f, 0, 1, 0, 1.1f, 7});
    one->prompt(ids);
  }
  for (uint32_t round = 0; round < 4; ++round) {
    size_t count = 0;
    LensRange range = everything(session);
    if (round == 2) range.first = range.count - 5, range.count = 5;
    const bool whole = session.lens(range, [&](const LensRow&) { return ++count < (round == 3 ? 100 : SIZE_MAX); });
    EXPECT_EQ(whole, round != 3);
    EXPECT_EQ(count, round == 3 ? 100 : range.count * range.layers.size());
    Ids mine, others;
    for (auto [one, to] : {std::pair{&session, &mine}, {&alone, &others}})
      one->generate(9, true, [to = to](uint32_t id) {
        to->push_back(id);
        return true;
      });
    EXPECT_EQ(mine, others) << round;
    EXPECT_EQ(mine.size(), 9u);
  }
  EXPECT_EQ(session.ids(), alone.ids());
}

std::string refusal(Session& session, const LensRange& range) {
  try {
    session.lens(range, [](const LensRow&) {
      ADD_FAILURE() << "a row was told";
      return true;
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "none";
}

TEST_F(LensTest, RefusesWhatIsNotThere) {
  const auto model = load_model(open_device(), folder_of("llama3"), Format::f16);
  Session session(*model, kContext, {});
  EXPECT_EQ(refusal(session, {0, 1, {0}}), "lens: the session has no prompt");
  session.prompt(Ids{1, 2, 3});
  EXPECT_EQ(refusal(session, {3, 1, {0}}), "positions: 1 from 3 on are asked for, the context has 3");
  EXPECT_EQ(refusal(session, {1, 3, {0}}), "positions: 3 from 1 on are asked for, the context has 3");
  EXPECT_EQ(refusal(session, {1, SIZE_MAX, {0}}).substr(0, 11), "positions: ");
  EXPECT_EQ(refusal(session, {0, 0, {0}}).substr(0, 11), "positions: ");
  EXPECT_EQ(refusal(session, {0, 1, {}}), "layers: none is asked for");
  EXPECT_EQ(refusal(session, {0, 1, {0, 3}}), "layers: one is 3, the model has 0 (the embedding) to 2");
  EXPECT_EQ(lens(session, {0, 3, {2}}).size(), 3u);
}

// Layers that are streamed from the host's memory have the same states.
TEST_F(LensTest, StreamedLayers) {
  LlamaShape shape;
  shape.layers = 15;
  shape.ffn = 480;
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "m.gguf";
  make_gguf(path, shape, {DType::q8_0, 5, ""});
  const auto device = [](uint64_t budget) {
    return Device::open({}, [&](const Caps&) {
      Plan plan = open_device()->plan();
      plan.memory_budget = budget;
      plan.chunk_tokens = 8;
      return plan;
    });
  };
  const auto whole = load_model(device(0), path, std::nullopt);
  const auto streamed = load_model(device(whole->weights.device_bytes() / 2), path, std::nullopt);
  ASSERT_TRUE(streamed->weights.stream);
  for (const Policy policy : {Policy::polite, Policy::throughput}) {
    std::vector<std::vector<Row>> rows;
    for (const Model* model : {whole.get(), streamed.get()}) {
      Session session(*model, 40, {}, Format::f16, policy);
      session.prompt(some_ids(20, model->config.vocab));
      rows.push_back(lens(session, everything(session)));
    }
    ASSERT_EQ(rows[0].size(), 20u * 16);
    ASSERT_EQ(rows[1].size(), rows[0].size());
    for (size_t i = 0; i < rows[0].size(); ++i) {
      EXPECT_LT(distance({rows[0][i].logits.begin(), rows[0][i].logits.end()}, rows[1][i].logits), 1e-5) << i;
      EXPECT_LT(distance({rows[0][i].hidden.begin(), rows[0][i].hidden.end()}, rows[1][i].hidden), 1e-5) << i;
    }
  }
}

TEST_F(LensTest, ARealModel) {
  const auto path = real_model("smollm2");
  if (!path) GTEST_SKIP() << "SmolLM2 is not in the user's cache: ./run model smollm2";
  const auto model = load_model(open_device(), *path, std::nullopt);
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(*path).metadata, path->string());
  Session session(*model, 64, {});
  session.prompt(tokenizer.encode("The capital of France is", Tokenizer::Special::plain));
  const std::vector<float> logits = session.logits();
  const uint32_t last = static_cast<uint32_t>(session.ids().size()) - 1;
  LensRange range = everything(session);
  range.first = last, range.count = 1;
  const std::vector<Row> rows = lens(session, range);
  EXPECT_LT(distance({logits.begin(), logits.end()}, rows.back().logits), 1e-5);
  std::vector<std::string> best;
  for (const Row& row : rows) {
    const uint32_t id = static_cast<uint32_t>(std::ranges::max_element(row.logits) - row.logits.begin());
    best.push_back(tokenizer.decode(Ids{id}));
    std::printf("layer %u:%s\n", row.layer, best.back().c_str());
  }
  EXPECT_EQ(best.back(), " Paris");
  EXPECT_NE(best.front(), " Paris");
}

}  // namespace
}  // namespace weft::test
