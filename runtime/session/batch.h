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

// Session::generate for each entry, all at once; returns when the last has ended, with why each has. The sessions have
// one model and are distinct; of what comes out it changes nothing but rounding: products of several tokens may add in
// another order. A session that has ended leaves the rest their own, smaller passes. Polite if one of them is.
// Throws Error(invalid_argument) for no entry or more than kMostLanes, a session without a prompt, one given twice or
// of another model, Error(unsupported) for one with a grammar or of an encoder-decoder; then
// nothing was generated.
std::vector<Stop> generate_batch(const std::vector<BatchEntry>& entries);

}  // namespace weft
