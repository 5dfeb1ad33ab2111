// The end of a pass, as the session sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::reference {

enum class Finish : uint32_t { running = 0, stop = 1, context = 2, not_finite = 3 };

struct Step {
  uint32_t pos = 0, end = 0, context = 0;
  Finish finished = Finish::running;
  std::vector<uint32_t> history;  // (context)
  std::vector<bool> seen;         // (vocabulary)
  std::vector<uint32_t> counts;   // (vocabulary) how often each was sampled
};

// A pass without sampling: past its tokens, at most to the end.
void advance(Step& step, uint32_t pass_tokens);

// A pass that sampled id (0xffffffff: there was nothing to sample): the context grows by it, and everything before it
// is in the caches. A finished text stays as it is. Stop ids come before a full context.
void append(Step& step, uint32_t id, const std::vector<uint32_t>& stop_ids);

}  // namespace weft::reference
