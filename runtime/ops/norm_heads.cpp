#include "ops/support.h"

#include "norm_heads.spv.h"

namespace weft::ops {

void norm_heads(Recorder& recorder, const HeadShape& shape, const View& state, const View& weight, const View& qkv,
                float epsilon, uint32_t tokens, bool values) {
  const uint32_t stride = stride_of((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  require_bytes(qkv, uint64_t{tokens} * stride * 4, "norm_heads", "qkv");
  const uint32_t of_values = values ? 1 : 0;
  const uint64_t normed = shape.kv_heads == 0 ? 1 : 2 + of_values;  // queries, keys, values
  require_bytes(weight, normed * shape.head_dim * 4, "norm_heads", "weight");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::norm_heads_subgroup : shaders::norm_heads,
                    shaders::NormHeads::Constants{.threads = plan.reduce_threads},
                    shaders::NormHeads::Bindings{.state = state, .weight = weight, .qkv = qkv},
                    abi::NormHeadsPush{shape.heads, shape.kv_heads, shape.head_dim, stride, epsilon, 0},
                    {shape.heads + (1 + of_values) * shape.kv_heads, tokens});
}

void norm_rows(Recorder& recorder, const HeadShape& shape, const View& state, const View& weight, const View& qkv,
               float epsilon, uint32_t tokens) {
  const uint32_t stride = stride_of((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  require_bytes(qkv, uint64_t{tokens} * stride * 4, "norm_heads", "qkv");
  require_bytes(weight, uint64_t{shape.heads + shape.kv_heads} * shape.head_dim * 4, "norm_heads", "weight");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::norm_heads_subgroup : shaders::norm_heads,
                    shaders::NormHeads::Constants{.threads = plan.reduce_threads},
                    shaders::NormHeads::Bindings{.state = state, .weight = weight, .qkv = qkv},
                    abi::NormHeadsPush{shape.heads, shape.kv_heads, shape.head_dim, stride, epsilon, 1}, {2, tokens});
}

}  // namespace weft::ops
