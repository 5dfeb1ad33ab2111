// Generation of several sessions at once: their tokens go through the network together (model/batch.h).
#pragma once

#include <vector>

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
// of them is. Throws Error(invalid_argument) for no entry or more than kMostBatchSlots, a session without a prompt, one
// given twice or of another model; Error(unsupported) for one with a grammar or of an encoder-decoder. Then nothing was
// generated.
std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries);

}  // namespace weft
