#include <algorithm>

#include "ops/linear_attention.h"
#include "ops/support.h"

#include "keep_rows.spv.h"

namespace weft::ops {

void keep_rows(Recorder& recorder, const LinearShape& shape, const View& state, const View& projected,
               const View& prepared, const LinearState& kept, uint32_t tokens) {
  const uint32_t own = kept.member_tokens ? kept.member_tokens : tokens;  // of a session
  const uint32_t in_stride = stride_of(shape.projected_cols()), prepared_stride = stride_of(shape.prepared_cols());
  require(tokens % own == 0, "keep_rows", "sessions with different numbers of tokens");
  require_bytes(projected, uint64_t{tokens} * in_stride * 4, "keep_rows", "projected rows");
  require_bytes(prepared, uint64_t{tokens} * prepared_stride * 4, "keep_rows", "prepared rows");
  require_bytes(kept.rows, kept_rows_bytes(shape), "keep_rows", "kept rows");
  recorder.dispatch(
      shaders::keep_rows, shaders::KeepRows::Constants{.member_tokens = kept.member_tokens},
      shaders::KeepRows::Bindings{.state = state, .projected = projected, .prepared = prepared, .kept = kept.rows},
      abi::KeepRowsPush{in_stride, shape.conv_at(), shape.conv_cols(), prepared_stride,
                        shape.kept_cols() - shape.conv_cols(), stride_of(shape.kept_cols()), kKeptRows, own},
      {ceil_div(shape.kept_cols(), 64), tokens / own * std::min(own, kKeptRows)});
}

}  // namespace weft::ops
