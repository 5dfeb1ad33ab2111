#include "session/medusa.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 32;
// Initial cost estimate of all guesses together, in one-token passes.
constexpr double kGuessedEach = 0.2;

}  // namespace

Medusa::Medusa(Session& of, std::shared_ptr<const ModelFile> file)
    : of_(of), file_(std::move(file)), heads_(std::make_unique<MedusaHeads>(of.model(), *file_)) {
  // As if the shares were probabilities, which they nearly are where the heads were trained on such text.
  for (size_t i = 0; i < kShares; ++i) chances_[i] = (static_cast<double>(i) + 0.5) / kShares;
}

void Medusa::begin(std::span<const uint32_t>) {
  guesses_.clear();
  shares_.clear();
  judged_ = 0;
  account_.begin();
  if (!heads_) heads_ = std::make_unique<MedusaHeads>(of_.model(), *file_);
}

double& Medusa::chance(float share) {
  return chances_[std::min(static_cast<size_t>(share * static_cast<float>(kShares)), kShares - 1)];
}

void Medusa::append(uint32_t id) {
  account_.append();
  if (judged_ >= guesses_.size()) return;
  const bool is_right = guesses_[judged_] == id;
  double& known = chance(shares_[judged_]);
  known += kNewWeight * ((is_right ? 1.0 : 0.0) - known);
  judged_ = is_right ? judged_ + 1 : guesses_.size();
}

std::span<const uint32_t> Medusa::draft(size_t most) {
  if (!account_.may_guess()) return {};
  if (account_.overdrawn()) {
    account_.rest(0);
    return {};
  }
  guess();
  const double spent = each_.known() ? each_.seconds() / account_.costs().one().seconds() : kGuessedEach;
  account_.spend(spent);
  const auto right = [&](size_t i) { return chance(shares_[i]); };
  return std::span(guesses_).first(
      account_.costs().best_draft(std::min(most, guesses_.size()), right, {.once = spent}));
}

std::span<const uint32_t> Medusa::guess() {
  const Stopwatch guessing = of_.stopwatch();
  guesses_.clear();
  shares_.clear();
  judged_ = 0;
  for (const abi::Guess& one : of_.guess(*heads_)) {
    if (one.id >= of_.model().config.vocab) break;  // no logit was a finite number
    guesses_.push_back(one.id);
    shares_.push_back(one.share);
  }
  each_.add(guessing.seconds());
  return guesses_;
}

}  // namespace weft
