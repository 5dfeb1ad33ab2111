#include "ops/linear_attention.h"
#include "ops/support.h"

#include "gate.spv.h"

namespace weft::ops {

void gate(Recorder& recorder, const GateShape& shape, const View& state, const View& gates, const View& weight,
          const View& x, uint32_t tokens) {
  const bool of_group = shape.kind == GateKind::of_group;
  const uint32_t stride = stride_of(shape.groups * shape.cols), gate_stride = stride_of(shape.gate_cols);
  require(shape.gate_at + shape.groups * (of_group ? 1 : shape.cols) <= shape.gate_cols, "gate",
          "gates after the row's end");
  require_bytes(gates, uint64_t{tokens} * gate_stride * 4, "gate", "gates");
  require_bytes(x, uint64_t{tokens} * stride * 4, "gate", "x");
  const bool normed = shape.kind == GateKind::after_norm || shape.kind == GateKind::then_norm;
  if (normed)
    require_bytes(weight, uint64_t{shape.cols} * (shape.own_weights ? shape.groups : 1) * 4, "gate", "weight");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(
      plan.subgroup ? shaders::gate_subgroup : shaders::gate,
      shaders::Gate::Constants{.threads = plan.reduce_threads, .kind = shape.kind},
      shaders::Gate::Bindings{.state = state, .gates = gates, .weight = normed ? weight : View{}, .x = x},
      abi::GatePush{shape.cols, stride, gate_stride, shape.gate_at, shape.own_weights ? shape.cols : 0, shape.epsilon},
      {shape.groups, tokens});
}

}  // namespace weft::ops
