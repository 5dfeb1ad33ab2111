// What passes of several tokens take, by operation, for docs/speculation.md: by hand, with WEFT_FIGURES=1.
// WEFT_FIGURES_MODEL=smollm2 takes that model in place of pocket. Prints a table in Markdown.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "support/model_test.h"

namespace weft::test {
namespace {

constexpr uint32_t kContext = 160, kRounds = 15, kSizes[] = {1, 2, 4, 8, 16};

// A session whose last tokens are those that it says itself: then a whole draft is right, as where all of a pass is of
// use.
std::unique_ptr<Session> said(const Model& model) {
  auto made = std::make_unique<Session>(model, kContext + 1, std::vector<uint32_t>());
  made->set_sampling(greedy());
  generate(*made, some_ids(kContext - 30, model.config.vocab), 30);
  return made;
}

PassTimes one_pass(Session& session, uint32_t tokens) {
  const bool checks = std::ranges::find(kDraftPasses, tokens) != std::end(kDraftPasses);
  return (checks ? session.time_checks(tokens, 2) : session.time_passes(tokens, 2)).back();  // the first warms up
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class PassFigures : public GpuTest {};

// All sizes by turns: what else the machine does delays all alike.
TEST_F(PassFigures, ByStage) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "for WEFT_FIGURES=1";
  const char* const asked = std::getenv("WEFT_FIGURES_MODEL");
  const auto path = asked ? real_model(asked) : std::filesystem::path(WEFT_SOURCE_DIR "/apps/pocket/pocket.gguf");
  ASSERT_TRUE(path) << asked;
  if (!open_device()->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const auto model = load_model(open_device(), *path, std::nullopt);
  std::map<uint32_t, std::unique_ptr<Session>> sessions;
  std::map<std::string, std::map<uint32_t, std::vector<double>>> times;
  for (const uint32_t tokens : kSizes) sessions[tokens] = said(*model), one_pass(*sessions[tokens], tokens);
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::map<uint32_t, double> whole;
    for (const uint32_t tokens : kSizes) {
      const PassTimes pass = one_pass(*sessions[tokens], tokens);
      for (const Timestamps::Stage& stage : pass.stages) times[stage.name][tokens].push_back(stage.seconds * 1e3);
      whole[tokens] = pass.submitted;
      times["~ in all, from the CPU's side"][tokens].push_back(pass.submitted * 1e3);
      times["~ against one of the same round"][tokens].push_back(pass.submitted / whole[1]);
    }
  }
  std::cout << "| ms | 1 | 2 | 4 | 8 | 16, of a prompt |\n|---|---|---|---|---|---|\n";
  for (const auto& [name, by_size] : times) {
    std::cout << "| " << (name[0] == '~' ? name.substr(2) : name);
    for (const uint32_t tokens : kSizes)
      if (by_size.contains(tokens))
        std::cout << " | " << std::round(median(by_size.at(tokens)) * 100) / 100;
      else
        std::cout << " | -";
    std::cout << " |" << std::endl;
  }
}

}  // namespace
}  // namespace weft::test
