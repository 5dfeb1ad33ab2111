#include "reference/advance.h"

#include <algorithm>

namespace weft::reference {

void advance(Step& step, uint32_t pass_tokens) { step.pos = std::min(step.pos + pass_tokens, step.end); }

void append(Step& step, uint32_t id, const std::vector<uint32_t>& stop_ids) {
  if (step.finished != Finish::running) return;
  if (id == 0xffffffff) {
    step.finished = Finish::not_finite;
    return;
  }
  step.history[step.end] = id;
  step.seen[id] = true;
  ++step.counts[id];
  step.pos = step.end++;
  if (step.end == step.context) step.finished = Finish::context;
  if (std::ranges::count(stop_ids, id)) step.finished = Finish::stop;
}

}  // namespace weft::reference
