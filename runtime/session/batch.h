// Generation of several sessions at once: their tokens go through the network together (run/batch.h).
#pragma once

#include <map>
#include <vector>

#include "session/generation.h"
#include "session/pass_costs.h"
#include "session/session.h"

namespace weft {

struct BatchEntry {
  Session& session;
  uint32_t max_tokens;  // 0: until another reason
  bool ignore_stop_tokens;
  Session::OnToken on_token;
};

// Session::generate for each entry, side by side. Returns after the last has ended, with the reason for each. The
// sessions are distinct and have the same model. Results differ from those of generate only by rounding: products of
// several tokens may add in another order. Guesses by lookup are checked when that pays for all sessions together.
// After a session has ended, the others go on in smaller passes. The batch is polite if one session is, and no faster
// than the duty of each allows. Throws Error(invalid_argument) for no entry or more than kMostBatchSlots, a session
// without a prompt, one given twice or of another model; Error(unsupported) for one with a grammar or of an
// encoder-decoder. In these cases nothing was generated.
std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries);

// Times of passes of batches, by the number of sessions.
using BatchCosts = std::map<size_t, PassCosts>;

// Passes of sessions that decode together until one of them stops.
class SharedPasses {
 public:
  using Generation = Session::Generation;
  // The sessions have begun, have not stopped, and have the same model. costs: of earlier passes; outlives this.
  SharedPasses(std::vector<Generation*> running, BatchCosts& costs);

  // Computes a pass and calls receive(generation, sharing) for each of its tokens, for sessions that have not stopped.
  // Closes when a session stops. sharing: tokens for each reading of the weights.
  // If checking guesses pays, the pass has several tokens a session. Else more passes are submitted ahead if `ahead`.
  // Must not be called after it has closed.
  template <class Receive>
  void step(const Receive& receive, bool ahead = true) {
    deliver(compute(ahead), receive);
  }
  // Receives what the passes in flight have brought, and submits none.
  template <class Receive>
  void catch_up(const Receive& receive) {
    while (pending_ > 0) deliver(wait(), receive);
  }
  void close() { closed_ = true; }
  bool closed() const { return closed_; }
  const std::vector<Generation*>& running() const { return running_; }

 private:
  template <class Receive>
  void deliver(double sharing, const Receive& receive) {
    for (size_t i = 0; i < running_.size(); ++i) {
      Generation& one = *running_[i];
      for (uint32_t left = appended_[i]; left > 0 && !one.stopped(); --left) receive(one, sharing);
      closed_ |= one.stopped().has_value();
    }
  }
  double compute(bool ahead);
  double wait();
  double check(uint32_t tokens);
  void submit(bool ahead);
  uint32_t tokens_worth_checking();
  size_t left() const;
  double sharing(size_t rows, size_t tokens) const;

  std::vector<Generation*> running_;
  const std::vector<Duty*> duties_;
  Batch batch_;
  PassCosts& costs_;                               // of so many sessions
  uint32_t most_tokens_;                           // of a session in a pass that checks guesses; 1: nothing is guessed
  std::vector<std::span<const uint32_t>> drafts_;  // by session: what may come next
  std::vector<uint32_t> appended_;                 // by session: tokens of the last pass
  uint32_t pending_ = 0;                           // passes of a token a session that were submitted and not received
  bool closed_ = false;
};

}  // namespace weft
