#include "ops/linear_attention.h"
#include "ops/support.h"

#include "scan_inputs.spv.h"
#include "scan_inputs_texel.spv.h"

namespace weft::ops {

uint64_t kept_rows_bytes(const LinearShape& shape) { return uint64_t{kKeptRows} * stride_of(shape.kept_cols()) * 4; }

void scan_inputs(Recorder& recorder, const LinearShape& shape, const View& state, const View& projected,
                 const View& weights, const LinearState& kept, const View& prepared, float epsilon, uint32_t tokens) {
  const uint32_t in_stride = stride_of(shape.projected_cols()), out_stride = stride_of(shape.prepared_cols());
  require(shape.taps >= 1 && shape.taps <= kMostTaps, "scan_inputs", "an unsupported number of taps");
  require(shape.key_heads > 0 && shape.heads % shape.key_heads == 0, "scan_inputs", "heads do not share keys evenly");
  require_bytes(projected, uint64_t{tokens} * in_stride * 4, "scan_inputs", "projected rows");
  require_bytes(weights, uint64_t{shape.weight_floats()} * 4, "scan_inputs", "weights");
  require_bytes(kept.rows, kept_rows_bytes(shape), "scan_inputs", "kept rows");
  require_bytes(prepared, uint64_t{tokens} * out_stride * 4, "scan_inputs", "prepared rows");
  const Plan& plan = recorder.device().plan();
  const abi::ScanInputsPush push = {
      in_stride, out_stride, stride_of(shape.kept_cols()), kKeptRows, shape.conv_at(), shape.gates_at(), epsilon};
  const Groups grid = {2 * shape.key_heads + shape.heads + 1, tokens};
  if (plan.texel_products && shape.taps == 4 && shape.key_dim % 4 == 0 && shape.value_dim % 4 == 0 &&
      shape.heads % 2 == 0 && shape.weight_floats() % 4 == 0) {
    recorder.dispatch(
        shaders::scan_inputs_texel,
        shaders::ScanInputsTexel::Constants{.member_tokens = kept.member_tokens,
                                            .biased = shape.biased,
                                            .delta = shape.delta,
                                            .key_heads = shape.key_heads,
                                            .heads = shape.heads,
                                            .key_dim = shape.key_dim,
                                            .value_dim = shape.value_dim},
        shaders::ScanInputsTexel::Bindings{
            .state = state, .projected = projected, .weights = weights, .kept = kept.rows, .prepared = prepared},
        push, grid);
    return;
  }
  recorder.dispatch(
      plan.subgroup ? shaders::scan_inputs_subgroup : shaders::scan_inputs,
      shaders::ScanInputs::Constants{.threads = plan.reduce_threads,
                                     .member_tokens = kept.member_tokens,
                                     .taps = shape.taps,
                                     .biased = shape.biased,
                                     .delta = shape.delta,
                                     .key_heads = shape.key_heads,
                                     .heads = shape.heads,
                                     .key_dim = shape.key_dim,
                                     .value_dim = shape.value_dim},
      shaders::ScanInputs::Bindings{
          .state = state, .projected = projected, .weights = weights, .kept = kept.rows, .prepared = prepared},
      push, grid);
}

}  // namespace weft::ops
