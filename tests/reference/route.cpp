#include "reference/route.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

std::vector<Choice> route(std::span<const double> logits, const Router& router, std::span<const float> biases) {
  std::vector<Choice> all;
  const double peak = *std::ranges::max_element(logits);
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - peak);
  const auto weight = [&](uint32_t expert) {
    return router.sigmoid ? 1 / (1 + std::exp(-logits[expert])) : std::exp(logits[expert] - peak) / total;
  };
  for (uint32_t expert = 0; expert < logits.size(); ++expert)
    all.push_back({expert, (router.sigmoid ? weight(expert) : logits[expert]) + (biases.empty() ? 0 : biases[expert])});
  std::ranges::stable_sort(all, [](const Choice& a, const Choice& b) { return a.weight > b.weight; });
  all.resize(router.used);
  double sum = router.sigmoid ? 1e-6 : 0;
  for (Choice& choice : all) sum += choice.weight = weight(choice.expert);
  for (Choice& choice : all) choice.weight *= router.scale / (router.normalised ? sum : 1);
  return all;
}

}  // namespace weft::reference
