#include "reference/route.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

std::vector<Choice> route(std::span<const double> logits, uint32_t used) {
  std::vector<Choice> all;
  for (uint32_t expert = 0; expert < logits.size(); ++expert) all.push_back({expert, logits[expert]});
  std::ranges::stable_sort(all, [](const Choice& a, const Choice& b) { return a.weight > b.weight; });
  all.resize(used);
  const double peak = all[0].weight;
  double total = 0;
  for (Choice& choice : all) total += choice.weight = std::exp(choice.weight - peak);
  for (Choice& choice : all) choice.weight /= total;
  return all;
}

}  // namespace weft::reference
