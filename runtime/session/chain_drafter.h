// Guesses a chain, of which each guess takes time: makes as many as pay, by how often they were right and how long they
// took.
#pragma once

#include <vector>

#include "session/drafter.h"
#include "session/pass_costs.h"

namespace weft {

class ChainDrafter : public Drafter {
 public:
  void append(uint32_t id) override;
  std::span<const uint32_t> draft(size_t most) override { return guess(wanted(most)); }
  bool learns_costs() const override { return true; }
  void learn(const PassCosts& costs) override { account_ = GuessAccount(costs); }
  void passed(uint32_t tokens, double seconds) override { account_.passed(tokens, seconds); }
  size_t resting() const override { return able() ? account_.resting() : SIZE_MAX; }
  // Makes `count` guesses, or fewer if the drafter has no more, whether they pay or not.
  std::span<const uint32_t> guess(size_t count);

 protected:
  // each: initial cost estimate of a guess, in one-token passes of the session.
  explicit ChainDrafter(double each) : hoped_each_(each) {}
  // A generate() begins.
  void begin_answer();
  // False if it cannot guess now.
  virtual bool able() const { return true; }
  // Appends up to `count` guesses to guesses_.
  virtual void make(size_t count) = 0;
  // Time to read a token that was missed during a rest, in seconds; 0: not known, or none is read.
  virtual double seconds_missed() const { return 0; }

  std::vector<uint32_t> guesses_;  // the last ones
  MeasuredTime each_;              // of a guess, which make() adds

 private:
  bool timed() const;
  double each() const;
  size_t wanted(size_t most);

  static constexpr double kHoped = 0.8;  // initial probability that a guess is right
  double hoped_each_;
  size_t judged_ = 0;      // of the guesses
  double right_ = kHoped;  // the chance that a guess is right if those before it are
  GuessAccount account_;
};

}  // namespace weft
