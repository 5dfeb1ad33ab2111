// How long the passes of a session, or of a batch, take by the tokens of a session, and how many guesses are worth a
// pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

// A time that is measured again and again. The first one records and compiles, and others on the machine may delay
// some: the shortest of the next few, then an average in which the last ones count most.
class MeasuredTime {
 public:
  void add(double seconds);
  bool known() const;
  // Is no longer known until one more is added: then the shorter of both.
  void doubt();
  double seconds() const { return seconds_; }

 private:
  uint32_t count_ = 0;
  double seconds_ = 0;
};

// What guesses take, in passes of one token: each of them, and all of them once, whether they are checked or not.
struct GuessingTime {
  double each = 0, once = 0;
};

class PassCosts {
 public:
  // A pass of so many tokens, 1 or one of kDraftPasses, took so long.
  void passed(uint32_t tokens, double seconds);
  // A pass of one token. Only if it is known() what others take is told by the time.
  const MeasuredTime& one() const { return passes_[0]; }
  using Chance = std::function<double(size_t)>;
  // Tokens in the time of a pass of one token, if so many guesses are checked. chance(i): that guess i is right if
  // those before it are.
  double gain(size_t drafted, const Chance& chance, const GuessingTime& takes = {}) const;
  // How many guesses, at most `most`, make the most of a second; 0: a pass without guesses does.
  size_t best_draft(size_t most, const Chance& chance, const GuessingTime& takes = {}) const;
  // Of a batch: how many tokens of each session a pass should compute, 1 or one of kDraftPasses up to `most`, to make
  // the most of a second. expected(n): the tokens of all sessions that a pass of n is expected to bring.
  uint32_t best_pass(uint32_t most, const std::function<double(uint32_t)>& expected) const;

 private:
  double cost(uint32_t tokens) const;        // in passes of one token
  std::array<MeasuredTime, 4> passes_ = {};  // of 1, 2, 4, 8 tokens
  uint32_t ones_ = 0;                        // passes of one token
};

}  // namespace weft
