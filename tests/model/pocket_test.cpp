// The model that Weft ships, against PyTorch: apps/pocket/golden.py wrote what PyTorch says of held-out dialogues.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <numeric>

#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

const std::filesystem::path kModel = source_folder() / "apps/pocket/pocket.gguf";
const std::filesystem::path kGolden = source_folder() / "tests/model/pocket_golden.json";

class PocketTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    std::ifstream file(kGolden);
    ASSERT_TRUE(file) << kGolden;
    golden_ = nlohmann::json::parse(file);
  }

  // Share of the positions of all dialogues where the greedy id after the dialogue's own ids is PyTorch's.
  double agreement(Format format, const char* best) const {
    const std::unique_ptr<Model> model = load_model(open_device(), kModel, format);
    Session session(*model, model->config.context, {});
    session.set_sampling(greedy());
    size_t same = 0, positions = 0;
    // All 2,000 positions in the soak; CI's software drivers take minutes for them.
    const size_t most = std::getenv("WEFT_HEAD_STEPS") ? SIZE_MAX : 600;
    for (const nlohmann::json& dialogue : golden_) {
      if (positions >= most) break;
      const auto ids = dialogue.at("ids").get<std::vector<uint32_t>>();
      const auto expected = dialogue.at(best).get<std::vector<uint32_t>>();
      for (size_t i = 0; i < ids.size(); ++i) {
        const std::vector<uint32_t> prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        same += generate(session, prefix, 1).at(0) == expected.at(i);
        ++positions;
      }
    }
    EXPECT_GE(positions, most == SIZE_MAX ? 2000u : most);
    return static_cast<double>(same) / static_cast<double>(positions);
  }

  nlohmann::json golden_;
};

// Both sides have the same numbers: only the arithmetic differs.
TEST_F(PocketTest, AgreesInF16WithPyTorchOnTheSameWeights) {
  const double share = agreement(Format::f16, "best_q8");
  RecordProperty("share", std::to_string(share));
  EXPECT_GE(share, 0.995);
}

TEST_F(PocketTest, AgreesInQ8WithPyTorchOnTheUnroundedWeights) {
  const double share = agreement(Format::q8, "best");
  RecordProperty("share", std::to_string(share));
  EXPECT_GE(share, 0.95);
}

// Bits per byte are proportional to the nats of the same text.
TEST_F(PocketTest, PredictsInQ8AsWellAsPyTorchUnrounded) {
  const std::unique_ptr<Model> model = load_model(open_device(), kModel, Format::q8);
  Session session(*model, model->config.context, {});
  double nats = 0, expected = 0;
  for (const nlohmann::json& dialogue : golden_) {
    const std::vector<float> scores = session.score(dialogue.at("ids").get<std::vector<uint32_t>>());
    nats = std::accumulate(scores.begin(), scores.end(), nats);
    expected += dialogue.at("nats").get<double>();
  }
  EXPECT_NEAR(nats / expected, 1, 0.005);
}

}  // namespace
}  // namespace weft::test
