// Effect on real models of tiles that round the inputs of a prompt's products: against tiles of floats, at the same
// positions of texts that the models know.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

struct Effect {
  double farthest = 0;             // difference of two logits, in standard deviations of a position's
  double divergence = 0;           // largest, in nats
  double nats = 0;                 // of the texts, divided by what they were
  size_t same = 0, positions = 0;  // greedy choices
};

class TilesTest : public GpuTest {
 protected:
  using Texts = std::vector<std::vector<uint32_t>>;

  static Effect effect(const std::filesystem::path& path, Format format, const Texts& texts, const Tuning& rounded) {
    Tuning exact = {.tile_tokens = 64, .half_tiles = false};
    const std::unique_ptr<Model> one = load_model(open_device(exact), path, format),
                                 other = load_model(open_device(rounded), path, format);
    Effect total;
    double nats[2] = {};
    for (const std::vector<uint32_t>& ids : texts) {
      const uint32_t context = std::max(static_cast<uint32_t>(ids.size()), 2u);
      Session sessions[2] = {{*one, context, {}}, {*other, context, {}}};
      // Every few tokens the next ones are computed as a prompt, after the cache of the earlier ones.
      for (size_t end = 2; end < ids.size(); end += std::max<size_t>(ids.size() / 12, 4)) {
        std::vector<double> logits[2];
        for (int i = 0; i < 2; ++i) {
          sessions[i].prompt({ids.data(), end});
          const std::vector<float> floats = sessions[i].logits();
          logits[i].assign(floats.begin(), floats.end());
        }
        const auto best = [](const std::vector<double>& all) { return std::ranges::max_element(all) - all.begin(); };
        double square = 0;
        for (const double logit : logits[0]) square += logit * logit / static_cast<double>(logits[0].size());
        for (size_t i = 0; i < logits[0].size(); ++i)
          total.farthest = std::max(total.farthest, std::abs(logits[0][i] - logits[1][i]) / std::sqrt(square));
        total.divergence = std::max(total.divergence, divergence(logits[0], logits[1]));
        total.same += best(logits[0]) == best(logits[1]);
        ++total.positions;
      }
      for (int i = 0; i < 2; ++i) {
        const std::vector<float> scores = sessions[i].score(ids);
        nats[i] = std::accumulate(scores.begin(), scores.end(), nats[i]);
      }
    }
    total.nats = nats[1] / nats[0];
    std::printf("%s %s: %zu of %zu greedy ids the same, logits off by %.2g deviations, KL %.2g, nats x %.6f\n",
                path.filename().c_str(), name(format), total.same, total.positions, total.farthest, total.divergence,
                total.nats);
    return total;
  }

  // True in the soak, which takes whole texts; CI's software drivers would need minutes for them.
  static bool thorough() { return std::getenv("WEFT_HEAD_STEPS") != nullptr; }
  static Texts dialogues() {
    std::ifstream file(source_folder() / "tests/model/pocket_golden.json");
    Texts texts;
    for (const nlohmann::json& dialogue : nlohmann::json::parse(file))
      texts.push_back(dialogue.at("ids").get<std::vector<uint32_t>>());
    if (!thorough()) texts = {texts.at(1)};  // 38 tokens
    return texts;
  }
  static Texts story(const std::filesystem::path& folder) {
    std::ifstream file(folder / "greedy-from-bos.ids");
    std::vector<uint32_t> ids(std::istream_iterator<uint32_t>(file), {});
    if (!thorough()) ids.resize(40);
    return {ids};
  }
  // All models that there are.
  static std::vector<Effect> effects(const Tuning& rounded) {
    std::vector<Effect> list;
    for (const Format format : {Format::q8, Format::q4, Format::f16}) {
      if ((rounded.int8_inputs && format == Format::f16) || (!thorough() && format != Format::q8)) continue;
      list.push_back(effect(source_folder() / "apps/pocket/pocket.gguf", format, dialogues(), rounded));
      if (const auto shared = shared_folder()) {
        const std::filesystem::path models = *shared / "models";
        list.push_back(effect(models / "tinystories-656K", format, story(models / "tinystories-656K"), rounded));
        list.push_back(effect(models / "stories260K/tinyllamas-stories-260k-f32.gguf", format,
                              story(models / "stories260K"), rounded));
      }
    }
    return list;
  }
};

TEST_F(TilesTest, HalvesChangeNoGreedyIds) {
  if (!open_device()->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  for (const Effect& one : effects({.tile_tokens = 64, .half_tiles = true, .matrices = false})) {
    EXPECT_EQ(one.same, one.positions);
    EXPECT_GT(one.farthest, 0) << "nothing was rounded";
    EXPECT_LE(one.farthest, 0.02);
    EXPECT_LE(one.divergence, 1e-4);
    EXPECT_NEAR(one.nats, 1, 1e-3);
  }
}

TEST_F(TilesTest, InputsOfEightBitsChangeFew) {
  if (!open_device()->caps().int8_dot) GTEST_SKIP() << "the device has no integer dot products";
  for (const Effect& one : effects({.tile_tokens = 64, .int8_inputs = true})) {
    EXPECT_GE(static_cast<double>(one.same) / static_cast<double>(one.positions), 0.9);
    EXPECT_GT(one.divergence, 1e-6) << "nothing was rounded";
    EXPECT_LE(one.divergence, 0.1);
    EXPECT_NEAR(one.nats, 1, 0.01);
  }
}

}  // namespace
}  // namespace weft::test
