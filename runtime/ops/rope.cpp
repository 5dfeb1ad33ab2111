#include <algorithm>
#include <iterator>
#include <string>

#include "ops/support.h"

#include "rope.spv.h"

namespace weft::ops {

namespace {

// True if rope.comp's variant for llvmpipe does such heads.
bool by_texels(const Plan& plan, const HeadShape& shape, uint32_t rotary_dim, const CacheFormat& cache) {
  return plan.texel_products && shape.head_dim % (cache == Format::f16 ? 8 : 2 * BLOCK) == 0 && rotary_dim > 0 &&
         rotary_dim % 16 == 0;
}

// Work items of rope.comp for a head's key or value.
uint32_t items_of(Format format, bool key, uint32_t head_dim) {
  const uint32_t code = static_cast<uint32_t>(format);
  if (format == Format::f16) return key ? CACHE_WORDS(code, head_dim) * 4 : head_dim / 2;
  return CACHE_SCALE_WORDS(code, head_dim);
}

}  // namespace

std::string name(const CacheFormat& format) {
  const std::string keys = name(format.keys);
  return format.keys == format.values ? keys : keys + "/" + name(format.values);
}

uint64_t key_bytes(const HeadShape& shape, uint32_t capacity, Format format) {
  return uint64_t{shape.kv_heads} * capacity * CACHE_SLOT_WORDS(static_cast<uint32_t>(format), shape.head_dim) * 4;
}

uint64_t value_bytes(const HeadShape& shape, uint32_t capacity, Format format) {
  if (format != Format::f16) return key_bytes(shape, capacity, format);
  return uint64_t{shape.kv_heads} * capacity * shape.head_dim * 2;
}

void require_cache(const HeadShape& shape, const CacheView& cache, const char* operation) {
  for (const Format format : {cache.format.keys, cache.format.values})
    require(std::ranges::find(kFormats, format) != std::end(kFormats), operation, "a cache of a native format");
  require(cache.capacity % TILE_ROWS == 0, operation, "the cache is no whole number of tiles");
  require_bytes(cache.keys, key_bytes(shape, cache.capacity, cache.format.keys), operation, "keys");
  require_bytes(cache.values, value_bytes(shape, cache.capacity, cache.format.values), operation, "values");
}

void rope(Recorder& recorder, const HeadShape& shape, Pairs pairs, uint32_t rotary_dim, const View& state,
          const View& qkv, const View& rope_table, const View& q, const CacheView& cache, uint32_t tokens) {
  const uint32_t query_dim = shape.heads * shape.head_dim, kv_dim = shape.kv_heads * shape.head_dim;
  const uint32_t in_stride = stride_of(query_dim + 2 * kv_dim), out_stride = stride_of(query_dim);
  require(shape.head_dim % 2 == 0 && rotary_dim % 2 == 0 && rotary_dim <= shape.head_dim, "rope", "odd head dimension");
  require(!cache.tree || (tokens <= TREE_ROWS && cache.member_tokens == 0), "rope", "a tree of too many rows");
  require_bytes(qkv, uint64_t{tokens} * in_stride * 4, "rope", "qkv");
  require_bytes(q, uint64_t{tokens} * out_stride * 4, "rope", "q");
  require_cache(shape, cache, "rope");
  const abi::RopePush push = {shape.heads,    shape.kv_heads, shape.head_dim,
                              in_stride,      out_stride,     static_cast<uint32_t>(pairs),
                              cache.capacity, rotary_dim};
  const auto [keys, values] = cache.format;
  const shaders::Rope::Constants constants = {.key_format = keys,
                                              .member_tokens = cache.member_tokens,
                                              .of_tree = cache.tree,
                                              .value_format = values,
                                              .dim = shape.head_dim,
                                              .adjacent = pairs == Pairs::adjacent};
  const shaders::Rope::Bindings bindings = {
      .state = state, .qkv = qkv, .rope_table = rope_table, .q = q, .keys = cache.keys, .values = cache.values};
  if (by_texels(recorder.device().plan(), shape, rotary_dim, cache.format))
    return recorder.dispatch(shaders::rope_texel, constants, bindings, push,
                             {tokens, ceil_div((query_dim + 2 * kv_dim) / 8, 8)});
  const uint32_t of_query = keys == Format::q4 ? items_of(keys, true, shape.head_dim) : shape.head_dim;
  const uint32_t of_kv = items_of(keys, true, shape.head_dim) + items_of(values, false, shape.head_dim);
  const uint32_t items = shape.heads * of_query + shape.kv_heads * of_kv;
  recorder.dispatch(shaders::rope, constants, bindings, push, {ceil_div(items, 64), tokens});
}

}  // namespace weft::ops
