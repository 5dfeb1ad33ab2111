// Where the device's time goes in a whole pass of a session: a decoded token, or a chunk of a prompt.
#pragma once

#include "session/session.h"

namespace weft {

struct PassProfile {
  struct Stage {
    const char* name;       // the operation's
    double seconds;         // on the device
    uint32_t dispatches;    // of one pass
    double bytes = 0;       // of weights and cache that it must read; 0: not known, or nothing to speak of
    double multiplies = 0;  // of weights with activations; 0: likewise
  };
  uint32_t tokens = 0;        // that the pass computed
  uint32_t position = 0;      // of the first of them
  std::vector<Stage> stages;  // in order of first appearance
  double between = 0;         // seconds from a command buffer's last dispatch to the next one's begin, summed
  double submitted = 0;       // seconds from before the submission until its fence was seen
};

// Runs the pass of the context's last `tokens` tokens, but of no more than it has and than the plan's chunk, several
// times, as decoding (1) and as reading a prompt's last chunk do, and gives the run of median length. The session's
// context stays as it is, and so does what it would generate. Throws Error(invalid_argument) without a prompt,
// Error(context_full), Error(unsupported) without timestamps.
PassProfile profile_pass(Session& session, uint32_t tokens, uint32_t repeat);

// The same of one token behind `position` others that are not computed: their keys and values are zeros, which take no
// less time. Forgets the context, as Session::reset does. Throws Error(context_full) where the session has no room for
// it and a token more.
PassProfile profile_behind(Session& session, uint32_t position, uint32_t repeat);

}  // namespace weft
