// Device time by operation in a whole pass of a session: one decoded token, or a chunk of a prompt.
#pragma once

#include "session/session.h"

namespace weft {

struct PassProfile {
  struct Stage {
    const char* name;       // the operation's
    double seconds;         // on the device
    uint32_t dispatches;    // of one pass
    double bytes = 0;       // of weights and cache that it must read; 0: unknown or few
    double multiplies = 0;  // of weights with activations; 0: unknown or few
  };
  uint32_t tokens = 0;        // that the pass computed
  uint32_t position = 0;      // of the first of them
  std::vector<Stage> stages;  // in order of first appearance
  double between = 0;         // seconds between the last dispatch of a command buffer and the next one's begin, summed
  double submitted = 0;       // seconds from before the submission until its fence was seen
};

// Runs the pass of the context's last `tokens` tokens (at most all, and at most a chunk) several times, as decoding (1)
// and the last chunk of a prompt do, and returns the run of median length. The session's context stays as it is, and so
// does what it would generate. Throws Error(invalid_argument) without a prompt,
// Error(context_full), Error(unsupported) without timestamps.
PassProfile profile_pass(Session& session, uint32_t tokens, uint32_t repeat);

// The same for one token after `position` others that are not computed: their keys and values are zeros, which take as
// long to read. Forgets the context, as Session::reset does. Throws Error(context_full) if the session has no room for
// them and one more token.
PassProfile profile_after(Session& session, uint32_t position, uint32_t repeat);

}  // namespace weft
