#include "ops/support.h"

#include "rope.spv.h"

namespace weft::ops {

namespace {

uint64_t q8_bytes(const HeadShape& shape, uint32_t capacity) {  // of keys or values
  return uint64_t{shape.kv_heads} * capacity * Q8_SLOT_WORDS(shape.head_dim) * 4;
}

// True if rope.comp's variant for llvmpipe does such heads.
bool by_texels(const Plan& plan, const HeadShape& shape, uint32_t rotary_dim, Format cache) {
  return plan.texel_products && shape.head_dim % (cache == Format::f16 ? 8 : 2 * BLOCK) == 0 && rotary_dim > 0 &&
         rotary_dim % 16 == 0;
}

}  // namespace

uint64_t key_bytes(const HeadShape& shape, uint32_t capacity, Format format) {
  if (format == Format::q8) return q8_bytes(shape, capacity);
  return uint64_t{shape.kv_heads} * capacity * ceil_div(shape.head_dim, 8) * 16;
}

uint64_t value_bytes(const HeadShape& shape, uint32_t capacity, Format format) {
  if (format == Format::q8) return q8_bytes(shape, capacity);
  return uint64_t{shape.kv_heads} * capacity * shape.head_dim * 2;
}

void rope(Recorder& recorder, const HeadShape& shape, Pairs pairs, uint32_t rotary_dim, const View& state,
          const View& qkv, const View& rope_table, const View& q, const CacheView& cache, uint32_t tokens) {
  const uint32_t query_dim = shape.heads * shape.head_dim, kv_dim = shape.kv_heads * shape.head_dim;
  const uint32_t in_stride = stride_of(query_dim + 2 * kv_dim), out_stride = stride_of(query_dim);
  require(shape.head_dim % 2 == 0 && rotary_dim % 2 == 0 && rotary_dim <= shape.head_dim, "rope", "odd head dimension");
  require(cache.format == Format::f16 || cache.format == Format::q8, "rope", "the cache is neither f16 nor q8");
  require(cache.capacity % TILE_ROWS == 0, "rope", "the cache is no whole number of tiles");
  require(!cache.tree || (tokens <= TREE_ROWS && cache.member_tokens == 0), "rope", "a tree of too many rows");
  require_bytes(qkv, uint64_t{tokens} * in_stride * 4, "rope", "qkv");
  require_bytes(q, uint64_t{tokens} * out_stride * 4, "rope", "q");
  require_bytes(cache.keys, key_bytes(shape, cache.capacity, cache.format), "rope", "keys");
  require_bytes(cache.values, value_bytes(shape, cache.capacity, cache.format), "rope", "values");
  const abi::RopePush push = {shape.heads,    shape.kv_heads, shape.head_dim,
                              in_stride,      out_stride,     static_cast<uint32_t>(pairs),
                              cache.capacity, rotary_dim};
  if (by_texels(recorder.device().plan(), shape, rotary_dim, cache.format)) {
    return recorder.dispatch({shaders::rope_texel,
                              {static_cast<uint32_t>(cache.format), cache.member_tokens, cache.tree, shape.head_dim,
                               pairs == Pairs::adjacent}},
                             {state, qkv, rope_table, q, cache.keys, cache.values}, push,
                             {tokens, ceil_div((query_dim + 2 * kv_dim) / 8, 8)});
  }
  const uint32_t of_kv = cache.format == Format::q8 ? 2 * Q8_SCALE_WORDS(shape.head_dim)
                                                    : ceil_div(shape.head_dim, 8) * 4 + shape.head_dim / 2;
  const uint32_t items = query_dim + shape.kv_heads * of_kv;
  recorder.dispatch({shaders::rope, {static_cast<uint32_t>(cache.format), cache.member_tokens, cache.tree}},
                    {state, qkv, rope_table, q, cache.keys, cache.values}, push, {ceil_div(items, 64), tokens});
}

}  // namespace weft::ops
