// How long the passes of a session, or of a batch, take by the tokens of a session, and how many guesses are worth a
// pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace weft {

// A time that is measured again and again. The first time is left out, because it includes recording and compiling.
// Other programs may delay some: the value is the shortest of the next few, then an average that favours the last ones.
class MeasuredTime {
 public:
  void add(double seconds);
  bool known() const { return trusted_ || untimed() == 0; }
  uint32_t untimed() const;  // number of times that are still needed
  // Makes the time unknown until one more is added; then it is the shorter of both.
  void doubt();
  // Makes it known if it was added twice. Further times still count as the first few.
  void trust() { trusted_ = count_ > 1; }
  double seconds() const { return seconds_; }

 private:
  uint32_t count_ = 0;
  bool trusted_ = false;
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
  // Makes the times known that were reported twice.
  void trust();
  // Time of a one-token pass. Other costs mean something only if this is known().
  const MeasuredTime& one() const { return passes_[0]; }
  // Time of a pass of `tokens` tokens, in passes of one token: measured, or an estimate until it is known.
  double cost(uint32_t tokens) const;
  using Chance = std::function<double(size_t)>;
  // The number of guesses, at most `most`, that gives the most tokens a second; 0: a pass without guesses does.
  // chance(i): the probability that guess i is right if those before it are.
  size_t best_draft(size_t most, const Chance& chance, const GuessingTime& takes = {}) const;
  // The same of a tree, whose first guesses are checked. chances[i]: the probability that guess i and all that it
  // follows are right.
  size_t best_tree(std::span<const double> chances, const GuessingTime& takes) const;
  // For a batch: how many tokens of each session a pass should compute to give the most tokens a second: 1, or one of
  // kDraftPasses up to `most`. expected(n): expected tokens of all sessions from a pass of n.
  uint32_t best_pass(uint32_t most, const std::function<double(uint32_t)>& expected) const;

 private:
  double gain(size_t drafted, double expected, const GuessingTime& takes) const;
  std::array<MeasuredTime, 4> passes_ = {};  // of 1, 2, 4, 8 tokens
  uint32_t ones_ = 0;                        // passes of one token
};

// The account of a drafter whose guesses take time: what they took, what they brought, and when it must rest. Guesses
// that are always wrong add at most a fortieth to the time of a text, and 2 passes of one token. All times are in
// one-token passes, unless a name says seconds.
class GuessAccount {
 public:
  GuessAccount() = default;
  // Begins with costs that were measured before.
  explicit GuessAccount(const PassCosts& costs) : costs_(costs) {}
  const PassCosts& costs() const { return costs_; }
  // A generate() begins: a rest without end ends.
  void begin();
  // A token came.
  void append();
  // As Drafter::passed. A pass of several tokens is paid for, and the tokens that follow it are worth one pass each.
  void passed(uint32_t tokens, double seconds);
  // Guesses took this long.
  void spend(double passes) { lost_ += passes; }
  bool overdrawn() const;
  // Begins a rest until another trial is paid for. each_missed: time that the drafter will then take for each token of
  // the rest, which this spends. If no rest is long enough, it ends with the next begin().
  void rest(double each_missed);
  size_t resting() const { return rest_; }  // tokens that are left of a rest
  // False during a rest, and while the time of a pass of one token is not known.
  bool may_guess() const { return rest_ == 0 && costs_.one().known(); }

 private:
  static constexpr size_t kNever = SIZE_MAX;
  PassCosts costs_;
  double lost_ = 0;
  size_t rest_ = 0;
  bool checking_ = false;
};

}  // namespace weft
