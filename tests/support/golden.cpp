#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft::test {

Golden read_golden(const std::filesystem::path& folder) {
  std::ifstream file(folder / "reference.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  return {document["prompt"], document["greedy"], document["leads"], document["positions"], document["logits"]};
}

static double spread(const std::vector<double>& values) {
  double mean = 0, square = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) square += (value - mean) * (value - mean) / static_cast<double>(values.size());
  return std::sqrt(square);
}

double distance_of(std::span<const float> logits, const std::vector<double>& want) {
  double worst = 0;
  for (size_t id = 0; id < want.size(); ++id) worst = std::max(worst, std::abs(logits[id] - want[id]));
  return worst / spread(want);
}

Distance distance(const Model& model, const Golden& golden, const Adapter* adapter) {
  std::vector<uint32_t> ids = golden.prompt;
  ids.insert(ids.end(), golden.greedy.begin(), golden.greedy.end());
  Session session(model, 256, {});
  session.set_adapter(adapter);
  Distance worst;
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    session.prompt(std::span(ids).first(golden.positions[i] + 1));
    const std::vector<float> logits = session.logits();
    const std::vector<double> got(logits.begin(), logits.end()), &want = golden.logits[i];
    worst.logits = std::max(worst.logits, distance_of(logits, want));
    worst.divergence = std::max(worst.divergence, divergence(want, got));
  }
  return worst;
}

std::vector<uint32_t> greedy_ids(const Model& model, std::span<const uint32_t> prompt, size_t count,
                                 VocabHead::Mode mode, const Adapter* adapter) {
  Session session(model, 256, {});
  session.set_adapter(adapter);
  VocabHead head;
  head.mode = mode;
  session.set_head(head);
  session.set_sampling(greedy());
  return generate(session, {prompt.begin(), prompt.end()}, static_cast<uint32_t>(count));
}

void expect_greedy_ids(const Model& model, const Golden& golden, const Adapter* adapter) {
  std::vector<uint32_t> text = golden.prompt;
  for (size_t done = 0; done < golden.greedy.size();) {
    const std::span<const uint32_t> want = std::span(golden.greedy).subspan(done);
    const std::vector<uint32_t> got = greedy_ids(model, text, want.size(), VocabHead::Mode::full, adapter);
    ASSERT_EQ(got.size(), want.size());
    const auto [differs, ignored] = std::ranges::mismatch(want, got);
    if (differs == want.end()) return;
    const size_t same = static_cast<size_t>(differs - want.begin());
    EXPECT_LT(golden.leads[done + same], 2 * kTolerance) << "id " << done + same;
    text.insert(text.end(), want.begin(), differs + 1);
    done += same + 1;
  }
}

}  // namespace weft::test
