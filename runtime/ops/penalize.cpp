#include <algorithm>

#include "ops/filter.h"
#include "ops/support.h"

#include "penalize.spv.h"

namespace weft::ops {

void penalize(Recorder& recorder, const View& state, const View& params, const View& token_flags, const View& logits,
              const View& scores, const Selectable& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "penalize", "logits");
  require_bytes(scores, score_bytes(from.rows), "penalize", "scores");
  require_bytes(token_flags, uint64_t{TOKEN_FLAG_WORDS(from.rows)} * 4, "penalize", "token flags");
  const bool listed = from.lists != nullptr;
  // A list is usually short: few workgroups, each of which loops until no rows are left. llvmpipe pays for the two
  // barriers of each (shaders/penalize.comp).
  const uint32_t groups = ceil_div(from.rows, recorder.device().plan().texel_products ? 4096 : 256);
  recorder.dispatch(shaders::penalize, shaders::Penalize::Constants{.listed = listed},
                    shaders::Penalize::Bindings{.params = params,
                                                .token_flags = token_flags,
                                                .logits = logits,
                                                .scores = scores.part(0, uint64_t{from.rows} * 4),
                                                .state = state,
                                                .lists = from.lists,
                                                .narrowed = filter_scratch(scores, from.rows)},
                    abi::PenalizePush{from.rows}, {listed ? std::min(groups, 16u) : groups});
}

}  // namespace weft::ops
