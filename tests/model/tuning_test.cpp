// A model gives the same greedy tokens with all settings that `weft tune` may choose, and its logits are equal: to the
// last bit where gpu/tuning.h says so, else up to rounding.
#include <cmath>
#include <cstring>

#include "gpu/tuning.h"
#include "support/model_test.h"

namespace weft::test {
namespace {

struct Answer {
  std::vector<uint32_t> ids;
  std::vector<float> logits;
};

class TuningTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    LlamaShape shape;
    shape.context = 256;
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 7, ""});  // a fixed seed, not searched for
  }
  // A prompt of a chunk and more, then greedy tokens.
  Answer answer(const std::function<void(Plan&)>& change) {
    const std::shared_ptr<Device> device = Device::open({}, [&](const Caps& caps) {
      Plan plan = make_plan(caps);
      change(plan);
      return plan;
    });
    const std::unique_ptr<Model> model = load_model(device, folder_.path() / "m.gguf", Format::q8);
    Session session(*model, 256, {});
    session.set_sampling(greedy());
    Answer result;
    result.ids = generate(session, some_ids(100, model->config.vocab), 40);
    result.logits = session.logits();
    return result;
  }
  TemporaryFolder folder_;
};

// The largest difference, in standard deviations of the first's.
double difference(const std::vector<float>& usual, const std::vector<float>& other) {
  double square = 0, farthest = 0;
  for (const float logit : usual) square += double{logit} * logit / static_cast<double>(usual.size());
  for (size_t i = 0; i < usual.size(); ++i) farthest = std::max(farthest, std::abs(double{other.at(i)} - usual[i]));
  return farthest / std::sqrt(square);
}

TEST_F(TuningTest, GreedyTokensDoNotDependOnThem) {
  const Caps caps = open_device()->caps();
  const Plan defaults = make_plan(caps);
  const Answer usual = answer([](Plan&) {}), again = answer([](Plan&) {});
  EXPECT_EQ(std::memcmp(usual.logits.data(), again.logits.data(), usual.logits.size() * 4), 0);
  for (const Tunable& tunable : tunables())
    for (const uint32_t value : tunable.candidates(caps, defaults)) {
      if (value == defaults.*tunable.field) continue;
      SCOPED_TRACE(std::string(tunable.name) + " " + std::to_string(value));
      const Answer other = answer([&](Plan& plan) { plan.*tunable.field = value; });
      EXPECT_EQ(other.ids, usual.ids);
      EXPECT_LE(difference(usual.logits, other.logits), 1e-4);
      if (tunable.field == &Plan::row_tiles) {
        EXPECT_EQ(difference(usual.logits, other.logits), 0);
      }
    }
}

// A prompt's products by tiles, as on a GPU: software devices never get them.
TEST_F(TuningTest, NorOnTiles) {
  const Answer usual = answer([](Plan& plan) { plan.tile_tokens = 0; });
  const bool fp16 = open_device()->caps().fp16;
  for (const uint32_t tile : {16u, 64u}) {
    const Answer tiled = answer([&](Plan& plan) { plan.tile_tokens = tile, plan.half_tiles = false; });
    EXPECT_EQ(tiled.ids, usual.ids) << tile;
    EXPECT_GT(difference(usual.logits, tiled.logits), 0) << "nothing was multiplied otherwise";
    EXPECT_LE(difference(usual.logits, tiled.logits), 1e-4) << tile;
    if (!fp16) continue;
    const Answer halves = answer([&](Plan& plan) { plan.tile_tokens = tile, plan.half_tiles = true; });
    EXPECT_EQ(halves.ids, usual.ids) << tile;
    EXPECT_GT(difference(tiled.logits, halves.logits), 0) << "nothing was multiplied otherwise";
    EXPECT_LE(difference(usual.logits, halves.logits), 1e-2) << tile;
  }
}

}  // namespace
}  // namespace weft::test
