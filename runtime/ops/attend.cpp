#include <algorithm>

#include "ops/support.h"

#include "attend.spv.h"
#include "attend_subgroup.spv.h"
#include "attend_texel.spv.h"

namespace weft::ops {
namespace {

// Query heads that a workgroup of attend_texel.comp does at once: as many as share a key/value head, but no more than
// registers are there for.
uint32_t heads_at_once(const HeadShape& shape) {
  const uint32_t group = shape.heads / shape.kv_heads, most = std::max(256 / shape.head_dim, 1u);
  uint32_t heads = std::min({group, most, 4u});
  while (group % heads != 0) --heads;
  return heads;
}

}  // namespace

void attend(Recorder& recorder, const HeadShape& shape, const Attention& attention, const View& state, const View& q,
            const CacheView& cache, const View& y, uint32_t tokens) {
  const uint32_t stride = stride_of(shape.heads * shape.head_dim);
  require(shape.head_dim % 2 == 0 && shape.head_dim <= 256, "attend",
          "the head dimension must be even and at most 256");
  require(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attend",
          "heads are no multiple of key/value heads");
  require_bytes(q, uint64_t{tokens} * stride * 4, "attend", "q");
  require_bytes(y, uint64_t{tokens} * stride * 4, "attend", "y");
  require_bytes(cache.keys, key_bytes(shape, cache.capacity, cache.format), "attend", "keys");
  require_bytes(cache.values, value_bytes(shape, cache.capacity, cache.format), "attend", "values");
  require(attention.window == 0 || attention.sees == Sees::before, "attend", "a window of what is not causal");
  const auto& [biases, reach] = attention.biases;
  const bool biased = biases.buffer != nullptr;
  if (biased) require_bytes(biases, uint64_t{shape.heads} * (2 * uint64_t{reach} + 1) * 4, "attend", "biases");
  const Plan& plan = recorder.device().plan();
  const abi::AttendPush push = {shape.heads,
                                shape.kv_heads,
                                shape.head_dim,
                                stride,
                                stride,
                                cache.capacity,
                                attention.scale,
                                attention.window ? attention.window : UINT32_MAX,
                                attention.soft_cap,
                                reach};
  const uint32_t capped = attention.soft_cap > 0 ? 1 : 0, alibi = attention.alibi ? 1 : 0,
                 sees = static_cast<uint32_t>(attention.sees);
  if (plan.texel_products && cache.format == Format::f16 && shape.head_dim % 8 == 0) {
    const uint32_t heads = heads_at_once(shape);
    const Kernel& kernel = recorder.device().kernel({"attend",
                                                     attend_texel_spv,
                                                     6,
                                                     0b10000,
                                                     sizeof push,
                                                     {capped, alibi, sees, biased ? 1u : 0u, heads, shape.head_dim},
                                                     0,
                                                     0b1110});
    return recorder.dispatch(kernel, {state, q, cache.keys, cache.values, y, biased ? biases : state}, push,
                             {shape.heads / heads, tokens});
  }
  const Kernel& kernel = recorder.device().kernel(
      {"attend",
       plan.subgroup ? std::span<const uint32_t>(attend_subgroup_spv) : attend_spv,
       6,
       0b10000,
       sizeof(abi::AttendPush),
       {plan.reduce_threads, capped, alibi, sees, biased ? 1u : 0u, static_cast<uint32_t>(cache.format)}});
  recorder.dispatch(kernel, {state, q, cache.keys, cache.values, y, biased ? biases : state}, push,
                    {shape.heads, tokens});
}

}  // namespace weft::ops
