#include "session/pass_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "run/schedule.h"

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 16;
// Initial estimate of what each token after the first adds to a pass, in one-token passes. A timed pass corrects it.
constexpr double kGuessedCost = 0.15;
// Number of times that make a time known, the first one left out.
constexpr uint32_t kTrials = 3;
// One-token passes between doubts. A size of passes that took too long is not used, so it would never be timed again;
// but the cause of the delay may be over.
constexpr uint32_t kDoubtEvery = 512;
// Least gain over one-token passes for which guesses are checked: such a pass cannot run ahead, and times vary.
constexpr double kLeastGain = 1.05;
// Time that wrong guesses may take: of each token's pass, and in addition for a trial, in one-token passes.
constexpr double kLossShare = 0.025, kTrialLoss = 2;
constexpr size_t kLeastRest = 64;  // tokens
constexpr double kLongestRest = 1e6;

size_t index_of(uint32_t tokens) { return static_cast<size_t>(std::countr_zero(tokens)); }

}  // namespace

void MeasuredTime::add(double seconds) {
  ++count_;
  if (count_ <= 2)  // the second replaces the first
    seconds_ = seconds;
  else if (count_ <= kTrials + 1)
    seconds_ = std::min(seconds_, seconds);
  else
    seconds_ += kNewWeight * (seconds - seconds_);
}

uint32_t MeasuredTime::untimed() const { return count_ > kTrials ? 0 : kTrials + 1 - count_; }

void MeasuredTime::doubt() {
  count_ = trusted_ ? kTrials : std::min(count_, kTrials);
  trusted_ = false;
}

void PassCosts::passed(uint32_t tokens, double seconds) {
  passes_[index_of(tokens)].add(seconds);
  if (tokens == 1 && ++ones_ % kDoubtEvery == 0)
    for (size_t i = 1; i < passes_.size(); ++i) passes_[i].doubt();
}

void PassCosts::trust() {
  for (MeasuredTime& time : passes_) time.trust();
}

double PassCosts::cost(uint32_t tokens) const {
  const MeasuredTime& several = passes_[index_of(tokens)];
  if (!one().known() || !several.known()) return 1 + kGuessedCost * (tokens - 1);
  return std::max(1.0, several.seconds() / one().seconds());  // more tokens are never less work
}

// Tokens in the time of a one-token pass, if `drafted` guesses are checked and a pass gives `expected` tokens.
double PassCosts::gain(size_t drafted, double expected, const GuessingTime& takes) const {
  const double pass = drafted == 0 ? 1 : cost(*std::ranges::upper_bound(kDraftPasses, drafted));
  return expected / (pass + takes.each * static_cast<double>(drafted) + takes.once);
}

size_t PassCosts::best_draft(size_t most, const Chance& chance, const GuessingTime& takes) const {
  std::vector<double> chances;
  for (size_t i = 0; i < most; ++i) chances.push_back((i == 0 ? 1 : chances.back()) * chance(i));
  return best_tree(chances, takes);
}

size_t PassCosts::best_tree(std::span<const double> chances, const GuessingTime& takes) const {
  double expected = 1, most_gained = kLeastGain * gain(0, expected, takes);
  size_t best = 0;
  for (size_t drafted = 1; drafted <= chances.size(); ++drafted) {
    expected += chances[drafted - 1];
    const double gained = gain(drafted, expected, takes);
    if (gained <= most_gained) continue;
    most_gained = gained;
    best = drafted;
  }
  return best;
}

uint32_t PassCosts::best_pass(uint32_t most, const std::function<double(uint32_t)>& expected) const {
  double most_gained = kLeastGain * expected(1);
  uint32_t best = 1;
  for (const uint32_t tokens : kDraftPasses) {
    if (tokens > most) break;
    const double gained = expected(tokens) / cost(tokens);
    if (gained <= most_gained) continue;
    most_gained = gained;
    best = tokens;
  }
  return best;
}

void GuessAccount::begin() {
  if (rest_ == kNever) rest_ = 0;
}

void GuessAccount::append() {
  lost_ = std::max(0.0, lost_ - (checking_ ? 1 + kLossShare : kLossShare));
  if (rest_ > 0 && rest_ != kNever) --rest_;
}

void GuessAccount::passed(uint32_t tokens, double seconds) {
  costs_.passed(tokens, seconds);
  checking_ = tokens > 1;
  if (checking_) spend(costs_.cost(tokens));
}

bool GuessAccount::overdrawn() const { return lost_ > kTrialLoss; }

void GuessAccount::rest(double each_missed) {
  const double paid = kLossShare - each_missed;  // by each token of the rest
  const double tokens = paid > 0 ? std::ceil(lost_ / paid) : kLongestRest;
  if (tokens >= kLongestRest) {
    rest_ = kNever;
    return;
  }
  rest_ = std::max(kLeastRest, static_cast<size_t>(tokens));
  spend(each_missed * static_cast<double>(rest_));
}

}  // namespace weft
