#include "ops/support.h"

#include "norm.spv.h"

namespace weft::ops {

namespace {

const shaders::Norm& norm_variant(const Plan& plan, const NormShape& shape) {
  if (plan.texel_products && shape.cols % 4 == 0) return shaders::norm_texel;
  return plan.subgroup ? shaders::norm_subgroup : shaders::norm;
}

}  // namespace

void norm(Recorder& recorder, const NormShape& shape, const View& state, const View& x, const View& weight,
          const View& y, uint32_t tokens, bool last_only, Output output, const BeginNorm* begin, float scale) {
  const uint32_t stride = stride_of(shape.cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "norm", "x");
  require_bytes(y, uint64_t{last_only ? 1 : tokens} * stride * 4, "norm", "y");
  require_bytes(weight, weight_floats(shape) * 4, "norm", "weight");
  require(scale == 1 || output == Output::add, "norm", "a scale of what is not added");
  if (begin) {
    require(!last_only, "norm", "a norm of the last token that begins another");
    require_bytes(begin->weight, uint64_t{shape.cols} * 4, "norm", "next weight");
    require_bytes(begin->rows, uint64_t{tokens} * begun_stride(shape.cols) * 4, "norm", "begun norm");
  }
  const Plan& plan = recorder.device().plan();
  const abi::NormPush push = {shape.cols, stride, stride, last_only, shape.epsilon, begun_stride(shape.cols), scale};
  recorder.dispatch(norm_variant(plan, shape),
                    shaders::Norm::Constants{.threads = plan.reduce_threads,
                                             .kind = shape.kind,
                                             .add = output == Output::add,
                                             .begins_norm = begin != nullptr},
                    shaders::Norm::Bindings{.state = state,
                                            .x = x,
                                            .weight = weight,
                                            .y = y,
                                            .next_weight = begin ? begin->weight : View{},
                                            .begun = begin ? begin->rows : View{}},
                    push, {last_only ? 1 : tokens});
}

}  // namespace weft::ops
