// What passes of several tokens take, by operation, for docs/speculation.md: by hand, with WEFT_FIGURES=1.
// WEFT_FIGURES_MODEL=smollm2 takes that model in place of pocket. Prints a table in Markdown.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "support/model_test.h"

namespace weft::test {
namespace {

constexpr uint32_t kContext = 160, kRepeat = 21;  // passes, of which the median counts

PassTimes median(std::vector<PassTimes> runs) {
  runs.erase(runs.begin());  // it warms up
  std::ranges::sort(runs, {}, &PassTimes::submitted);
  return runs[runs.size() / 2];
}

class PassFigures : public GpuTest {};

TEST_F(PassFigures, ByStage) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "for WEFT_FIGURES=1";
  const char* const asked = std::getenv("WEFT_FIGURES_MODEL");
  const auto path = asked ? real_model(asked) : std::filesystem::path(WEFT_SOURCE_DIR "/apps/pocket/pocket.gguf");
  ASSERT_TRUE(path) << asked;
  if (!open_device()->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const auto model = load_model(open_device(), *path, std::nullopt);
  Session session(*model, kContext + 1, {});
  session.set_sampling(greedy());
  session.prompt(some_ids(kContext - 30, model->config.vocab));
  // Tokens that it says itself: the whole draft is right, as where all of a pass is of use.
  session.generate(30, true, [](uint32_t) { return true; });
  const uint32_t sizes[] = {1, 2, 4, 8, 16};
  std::map<std::string, std::map<uint32_t, double>> rows;
  std::map<uint32_t, double> whole;
  for (const uint32_t tokens : sizes) {
    const bool checks = std::ranges::find(kDraftPasses, tokens) != std::end(kDraftPasses);
    const PassTimes times =
        median(checks ? session.time_checks(tokens, kRepeat + 1) : session.time_passes(tokens, kRepeat + 1));
    whole[tokens] = times.submitted;
    for (const Timestamps::Stage& stage : times.stages) rows[stage.name][tokens] = stage.seconds;
  }
  std::cout << "| ms | 1 | 2 | 4 | 8 | 16, a prompt's |\n|---|---|---|---|---|---|\n";
  const auto print = [&](const std::string& name, std::map<uint32_t, double>& times) {
    std::cout << "| " << name;
    for (const uint32_t tokens : sizes) std::cout << " | " << std::round(times[tokens] * 1e6) / 1e3;
    std::cout << " |" << std::endl;
  };
  for (auto& [name, times] : rows) print(name, times);
  print("from the CPU's side", whole);
}

}  // namespace
}  // namespace weft::test
