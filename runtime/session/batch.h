// Generation of several sessions at once: their tokens go through the network together (model/batch.h).
#pragma once

#include <vector>

#include "session/generation.h"
#include "session/session.h"

namespace weft {

struct BatchEntry {
  Session& session;
  uint32_t max_tokens;  // 0: until another reason
  bool ignore_stop_tokens;
  Session::OnToken on_token;
};

// Session::generate for each entry, side by side. Returns when the last has ended, with the reason of each. The
// sessions are distinct and have the same model. Results differ from those of generate only by rounding: products of
// several tokens may add in another order. When a session has ended, the others go on in smaller passes. Polite if one
// of them is, and no faster than the duty of each allows. Throws Error(invalid_argument) for no entry or more than
// kMostBatchSlots, a session without a prompt, one given twice or of another model; Error(unsupported) for one with a
// grammar or of an encoder-decoder. Then nothing was generated.
std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries);

// The passes of sessions that decode together until one of them stops.
class SharedPasses {
 public:
  using Generation = Session::Generation;
  // The sessions have begun, have not stopped, and have the same model.
  explicit SharedPasses(std::vector<Generation*> running);

  // Submits passes ahead unless closed, waits for one and calls receive(generation, sessions) for each session that has
  // not stopped. Closes when one stops.
  template <class Receive>
  void step(const Receive& receive) {
    submit();
    batch_.wait_oldest();
    for (Generation* one : running_) {
      if (!one->stopped()) receive(*one, shared_);
      closed_ |= one->stopped().has_value();
    }
  }
  void close() { closed_ = true; }  // no more passes are submitted
  bool closed() const { return closed_; }
  bool finished() const { return closed_ && batch_.in_flight() == 0; }
  const std::vector<Generation*>& running() const { return running_; }

 private:
  void submit();

  std::vector<Generation*> running_;
  Batch batch_;
  uint32_t shared_;  // sessions that products read the weights once for
  size_t left_;      // passes that all sessions want
  bool closed_ = false;
};

}  // namespace weft
