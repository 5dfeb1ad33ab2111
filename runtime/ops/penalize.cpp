#include <algorithm>

#include "ops/support.h"

#include "penalize.spv.h"

namespace weft::ops {

void penalize(Recorder& recorder, const View& state, const View& params, const View& token_flags, const View& logits,
              const View& scores, const Selectable& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "penalize", "logits");
  require_bytes(scores, uint64_t{from.rows} * 4, "penalize", "scores");
  require_bytes(token_flags, uint64_t{TOKEN_FLAG_WORDS(from.rows)} * 4, "penalize", "token flags");
  const bool listed = from.lists != nullptr;
  // A list is usually short: few workgroups, and each goes on for as long as there are rows.
  const uint32_t groups = ceil_div(from.rows, 64);
  recorder.dispatch({shaders::penalize, {listed}},
                    {params, token_flags, logits, scores, state, listed ? *from.lists : logits},
                    abi::PenalizePush{from.rows}, {listed ? std::min(groups, 16u) : groups});
}

}  // namespace weft::ops
