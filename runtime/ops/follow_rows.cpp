#include "ops/support.h"

#include "follow_rows.spv.h"

namespace weft::ops {

void follow_rows(Recorder& recorder, const View& state, const View& rows, uint32_t words, uint32_t stride,
                 uint32_t first, uint32_t last) {
  require(words <= stride && first > 0 && last < TREE_ROWS, "follow_rows", "rows that overlap, or no depth of a tree");
  require_bytes(rows, uint64_t{TREE_ROWS} * stride * 4, "follow_rows", "rows");
  recorder.dispatch(shaders::follow_rows, {}, shaders::FollowRows::Bindings{.state = state, .rows = rows},
                    abi::FollowRowsPush{words, stride, first, last}, {ceil_div(words, 64)});
}

}  // namespace weft::ops
