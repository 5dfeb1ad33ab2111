#include "session/chain_drafter.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNewWeight = 1.0 / 16;
constexpr uint32_t kFewTimes = 2;  // times of a guess that may be missing

}  // namespace

void ChainDrafter::begin_answer() {
  guesses_.clear();
  judged_ = 0;
  account_.begin();
}

void ChainDrafter::append(uint32_t id) {
  if (judged_ < guesses_.size()) {
    const bool is_right = guesses_[judged_] == id;
    right_ += kNewWeight * ((is_right ? 1.0 : 0.0) - right_);
    judged_ = is_right ? judged_ + 1 : guesses_.size();
  }
  account_.append();
}

// The first time is left out, so two are enough to begin with.
bool ChainDrafter::timed() const { return each_.untimed() <= kFewTimes && account_.costs().one().known(); }

// Time of one guess, in one-token passes.
double ChainDrafter::each() const { return timed() ? each_.seconds() / account_.costs().one().seconds() : hoped_each_; }

// Number of guesses to make. Begins a pause if they do not pay.
size_t ChainDrafter::wanted(size_t most) {
  // The first tokens are not guessed: their times are needed to tell what a guess may take.
  if (!able() || !account_.may_guess()) return 0;
  // One guess at a time, until the time of one is known.
  const size_t best = account_.overdrawn()
                          ? 0
                          : account_.costs().best_draft(timed() ? most : std::min<size_t>(most, 1),
                                                        [&](size_t) { return right_; }, {.each = each()});
  if (best > 0) return best;
  account_.rest(seconds_missed() / account_.costs().one().seconds());
  right_ = kHoped;
  return 0;
}

std::span<const uint32_t> ChainDrafter::guess(size_t count) {
  guesses_.clear();
  judged_ = 0;
  if (count == 0 || !able()) return {};
  make(count);
  account_.spend(each() * static_cast<double>(guesses_.size()));
  return guesses_;
}

}  // namespace weft
