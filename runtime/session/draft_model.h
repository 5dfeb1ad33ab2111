// Guesses tokens with a second, smaller model that has the same tokenizer.
#pragma once

#include <vector>

#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {

// It draws with the sampling of the session that it guesses for, and with the same noise at each position, so two
// models with the same distribution draw the same token.
class DraftModel : public Drafter {
 public:
  // draft: a session of the small model, used only here. of: the session that it guesses for. Both must outlive this.
  DraftModel(Session& draft, const Session& of);

  void begin(std::span<const uint32_t> ids) override;
  void append(uint32_t id) override;
  std::span<const uint32_t> draft(size_t most) override { return guess(wanted(most)); }
  bool learns_costs() const override { return true; }
  void learn(const PassCosts& costs) override { account_ = GuessAccount(costs); }
  void passed(uint32_t tokens, double seconds) override { account_.passed(tokens, seconds); }
  size_t resting() const override;
  // True if the draft's device was lost. Guessing then pauses until a begin() after the device was opened again.
  bool lost() const { return lost_; }
  // Makes `count` guesses, or fewer if the draft's text ends, whether they pay or not.
  std::span<const uint32_t> guess(size_t count);

 private:
  bool able() const;
  bool timed() const;
  double each() const;
  size_t wanted(size_t most);
  bool reads(uint32_t id) const { return id < draft_.model().config.vocab; }
  void generate(size_t count);

  Session& draft_;
  const Session& of_;
  std::vector<uint32_t> ids_;      // the context
  std::vector<uint32_t> guesses_;  // the last ones
  size_t judged_ = 0;              // of them
  double right_;                   // the chance that a guess is right if those before it are
  MeasuredTime each_;              // of the guesses
  double read_seconds_ = 0;        // time to read one of many tokens, the shortest so far; 0: not known
  GuessAccount account_;
  bool readable_ = false;  // the draft has a row for every token of the context
  bool lost_ = false;
};

}  // namespace weft
