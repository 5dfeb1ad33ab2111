// Guesses tokens with a second, smaller model that has the same tokenizer.
#pragma once

#include <vector>

#include "session/chain_drafter.h"
#include "session/session.h"

namespace weft {

// It draws with the sampling of the session that it guesses for, and with the same noise at each position, so two
// models with the same distribution draw the same token.
class DraftModel : public ChainDrafter {
 public:
  // draft: a session of the small model, used only here. of: the session that it guesses for. Both must outlive this.
  DraftModel(Session& draft, const Session& of);

  void begin(std::span<const uint32_t> ids) override;
  void append(uint32_t id) override;
  // True if the draft's device was lost. Guessing then pauses until a begin() after the device was opened again.
  bool lost() const { return lost_; }

 private:
  bool able() const override;
  void make(size_t count) override;
  double seconds_missed() const override { return read_seconds_; }
  bool reads(uint32_t id) const { return id < draft_.model().config.vocab; }
  void generate(size_t count);

  Session& draft_;
  const Session& of_;
  std::vector<uint32_t> ids_;  // the context
  double read_seconds_ = 0;    // time to read one of many tokens, the shortest so far; 0: not known
  bool readable_ = false;      // the draft has a row for every token of the context
  bool lost_ = false, failed_ = false;
};

}  // namespace weft
