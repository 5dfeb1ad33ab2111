// How long the passes of a session, or of a batch, take by the tokens of a session, and how many guesses are worth a
// pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

// A time that is measured again and again. The first time is left out, because it includes recording and compiling.
// Other programs may delay some: the value is the shortest of the next few, then an average that favours the last ones.
class MeasuredTime {
 public:
  void add(double seconds);
  bool known() const;
  // Makes the time unknown until one more is added; then it is the shorter of both.
  void doubt();
  double seconds() const { return seconds_; }

 private:
  uint32_t count_ = 0;
  double seconds_ = 0;
};

// Cost of guesses, in one-token passes. each: of every guess. once: of all together, whether they are checked or not.
struct GuessingTime {
  double each = 0, once = 0;
};

class PassCosts {
 public:
  // Reports the time of a pass of `tokens` tokens, which is 1 or one of kDraftPasses.
  void passed(uint32_t tokens, double seconds);
  // Time of a one-token pass. Other costs mean something only if this is known().
  const MeasuredTime& one() const { return passes_[0]; }
  using Chance = std::function<double(size_t)>;
  // Expected tokens in the time of a one-token pass, if `drafted` guesses are checked. chance(i): the probability that
  // guess i is right if those before it are.
  double gain(size_t drafted, const Chance& chance, const GuessingTime& takes = {}) const;
  // The number of guesses, at most `most`, that gives the most tokens a second; 0: a pass without guesses does.
  size_t best_draft(size_t most, const Chance& chance, const GuessingTime& takes = {}) const;
  // For a batch: how many tokens of each session a pass should compute to give the most tokens a second: 1, or one of
  // kDraftPasses up to `most`. expected(n): expected tokens of all sessions from a pass of n.
  uint32_t best_pass(uint32_t most, const std::function<double(uint32_t)>& expected) const;

 private:
  double cost(uint32_t tokens) const;        // in passes of one token
  std::array<MeasuredTime, 4> passes_ = {};  // of 1, 2, 4, 8 tokens
  uint32_t ones_ = 0;                        // passes of one token
};

}  // namespace weft
