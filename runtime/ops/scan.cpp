#include "ops/linear_attention.h"
#include "ops/support.h"

#include "scan.spv.h"
#include "scan_texel.spv.h"

namespace weft::ops {

namespace {

// True if scan_texel.comp computes such heads. llvmpipe takes long to compile its unrolled loops over longer keys.
bool by_texels(const Plan& plan, const LinearShape& shape) {
  return plan.texel_products && shape.key_dim % 32 == 0 && shape.key_dim <= 128 && shape.value_dim % 4 == 0 &&
         shape.heads % 2 == 0;
}

}  // namespace

uint64_t matrices_bytes(const LinearShape& shape) {
  return uint64_t{SCAN_SLOTS} * stride_of(shape.heads * shape.key_dim * shape.value_dim) * 4;
}

void scan(Recorder& recorder, const LinearShape& shape, const View& state, const View& prepared, const View& weights,
          const LinearState& kept, const View& y, uint32_t tokens) {
  const uint32_t in_stride = stride_of(shape.prepared_cols()), out_stride = stride_of(shape.values());
  const uint32_t own = kept.member_tokens ? kept.member_tokens : tokens;  // of a session
  require(shape.key_dim <= kMostKeyDim, "scan", "keys with too many columns");
  require(tokens % own == 0, "scan", "sessions with different numbers of tokens");
  require_bytes(prepared, uint64_t{tokens} * in_stride * 4, "scan", "prepared rows");
  require_bytes(weights, uint64_t{shape.weight_floats()} * 4, "scan", "weights");
  require_bytes(kept.rows, kept_rows_bytes(shape), "scan", "kept rows");
  require_bytes(kept.matrices, matrices_bytes(shape), "scan", "states");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "scan", "y");
  const abi::ScanPush push = {in_stride, out_stride,        stride_of(shape.kept_cols()),
                              kKeptRows, shape.conv_cols(), shape.weight_floats() - shape.heads,
                              own};
  if (by_texels(recorder.device().plan(), shape)) {
    recorder.dispatch(shaders::scan_texel,
                      shaders::ScanTexel::Constants{.member_tokens = kept.member_tokens,
                                                    .delta = shape.delta,
                                                    .key_heads = shape.key_heads,
                                                    .heads = shape.heads,
                                                    .key_dim = shape.key_dim,
                                                    .value_dim = shape.value_dim,
                                                    .tiled = shape.tiled},
                      shaders::ScanTexel::Bindings{.state = state,
                                                   .prepared = prepared,
                                                   .kept = kept.rows,
                                                   .weights = weights,
                                                   .states = kept.matrices,
                                                   .new_states = kept.matrices,
                                                   .y = y},
                      push, {shape.heads * ceil_div(shape.value_dim, 32), tokens / own});
    return;
  }
  constexpr uint32_t kThreads = 128, kLanes = 4;  // a lane holds at most 64 rows
  recorder.dispatch(
      shaders::scan,
      shaders::Scan::Constants{.threads = kThreads,
                               .member_tokens = kept.member_tokens,
                               .lanes = kLanes,
                               .delta = shape.delta,
                               .key_heads = shape.key_heads,
                               .heads = shape.heads,
                               .key_dim = shape.key_dim,
                               .value_dim = shape.value_dim,
                               .tiled = shape.tiled},
      shaders::Scan::Bindings{
          .state = state, .prepared = prepared, .kept = kept.rows, .weights = weights, .states = kept.matrices, .y = y},
      push, {shape.heads * ceil_div(shape.value_dim, kThreads / kLanes), tokens / own});
}

}  // namespace weft::ops
