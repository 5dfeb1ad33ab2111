// Reference values of tiny random models, by an oracle, and the distance of a model from them.
#pragma once

#include <filesystem>
#include <vector>

#include "model/adapter.h"
#include "support/model_test.h"

namespace weft::test {

struct Golden {
  std::vector<uint32_t> prompt, greedy;  // what follows the prompt
  std::vector<double> leads;             // of each greedy id over the second best, in units of the logits' spread
  std::vector<uint32_t> positions;       // of prompt and greedy
  std::vector<std::vector<double>> logits;
};

Golden read_golden(const std::filesystem::path& folder);  // of reference.json

// Worst over the kept positions: difference of a logit in units of the spread, and divergence.
struct Distance {
  double logits = 0, divergence = 0;
};

// The largest difference of a logit, in units of the spread of the wanted ones.
double distance_of(std::span<const float> logits, const std::vector<double>& want);
Distance distance(const Model& model, const Golden& golden, const Adapter* adapter = nullptr);

std::vector<uint32_t> greedy_ids(const Model& model, std::span<const uint32_t> prompt, size_t count,
                                 VocabHead::Mode mode, const Adapter* adapter = nullptr);

inline constexpr double kTolerance = 2e-3;  // of f16's logits, in units of the spread

// All ids must be the reference's. If its two best are so close that the tolerance allows either, the text goes on with
// the reference's.
void expect_greedy_ids(const Model& model, const Golden& golden, const Adapter* adapter = nullptr);

}  // namespace weft::test
