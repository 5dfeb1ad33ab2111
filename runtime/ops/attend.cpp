#include <algorithm>
#include <bit>
#include <numeric>

#include "ops/support.h"

#include "attend.spv.h"
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

// True if attend_texel.comp computes such heads over such caches. llvmpipe compiles its unrolled loops over wider heads
// for a minute.
bool by_texels(const Plan& plan, const HeadShape& shape, const CacheFormat& cache) {
  const auto [keys, values] = cache;
  const uint32_t of_keys = keys == Format::q4 ? 32 : keys == Format::q8 ? 16 : 8;
  const uint32_t of_values = values == Format::q4 ? 64 : values == Format::q8 ? 16 : 8;
  return plan.texel_products && shape.head_dim <= 256 && shape.head_dim % std::max(of_keys, of_values) == 0;
}

// The most queries that a workgroup of attend.comp does at once. Plans say by the tokens of a block how many a thread's
// registers hold, and there is shared memory for so many; for 8 RADV spills 90 registers on RDNA 3.
uint32_t most_queries(const Plan& plan, const HeadShape& shape) {
  return std::min(plan.block_tokens, shape.head_dim > 256 ? 2u : 4u);
}

uint32_t heads_of_group(const Plan& plan, const HeadShape& shape) {
  const uint32_t group = shape.heads / shape.kv_heads;
  uint32_t heads = std::min(group, most_queries(plan, shape));
  while (group % heads != 0) --heads;
  return heads;
}

// Tokens of a pass with workgroups enough for a GPU, each of which then goes through the whole cache. A software driver
// is kept from long loops.
constexpr uint32_t kManyTokens = 16;
bool has_many_tokens(const Plan& plan, uint32_t tokens) { return plan.tile_tokens > 0 && tokens > kManyTokens; }

// Tokens of a prompt that a workgroup of attend.comp does at once, for each the same positions' keys and values.
uint32_t tokens_of_group(const Plan& plan, const HeadShape& shape, const Attention& attention, const CacheView& cache,
                         uint32_t tokens, uint32_t of_session) {
  const bool masked = attention.mask == AttentionMask::causal && attention.window == 0 && !cache.tree;
  if (!masked || !has_many_tokens(plan, tokens)) return 1;
  return std::gcd(std::bit_floor(most_queries(plan, shape) / heads_of_group(plan, shape)), of_session);
}

// Workgroups for a token and some of its heads. most: spans grow where there would be more.
constexpr uint32_t kMostParts = 64;  // attend.comp joins twice as many at once
uint32_t parts_of(const Plan& plan, uint32_t capacity, uint32_t tokens, uint32_t most) {
  return has_many_tokens(plan, tokens) ? 1 : std::min(ceil_div(capacity, plan.attend_span), most);
}

}  // namespace

uint64_t part_bytes(const Plan& plan, const HeadShape& shape, uint32_t capacity, uint32_t tokens) {
  const uint32_t few = has_many_tokens(plan, tokens) ? kManyTokens : tokens;
  const uint32_t parts = parts_of(plan, capacity, few, plan.texel_products ? UINT32_MAX : kMostParts);
  const uint64_t rows = uint64_t{few} * shape.heads;
  return parts > 1 ? (parts * rows * (shape.head_dim + 2) + rows) * 4 : 0;
}

bool can_fuse_rope(const Plan& plan, const HeadShape& shape, const Attention& attention, const FusedRope& fused_rope,
                   const CacheFormat& cache, uint32_t tokens) {
  return tokens == 1 && cache == Format::f16 && shape.head_dim % 8 == 0 && attention.mask == AttentionMask::causal &&
         !attention.biases.values.buffer && fused_rope.rotary_dim > 0 &&
         (!plan.texel_products || fused_rope.rotary_dim % 16 == 0);
}

namespace {

// A checked dispatch, and arguments that both shaders have.
struct Checked {
  const HeadShape& shape;
  const Attention& attention;
  const View &state, &q;
  const CacheView& cache;
  const View& y;
  const FusedRope* fused_rope;
  uint32_t tokens, tokens_at_once, parts;
  abi::AttendPush push;

  uint32_t mask() const { return cache.tree ? MASK_TREE : static_cast<uint32_t>(attention.mask); }
  bool rotates() const { return fused_rope != nullptr; }
  bool adjacent() const { return fused_rope && fused_rope->pairs == Pairs::adjacent; }
  uint32_t rotary_dim() const { return fused_rope ? fused_rope->rotary_dim : 0; }
  View scratch() const { return parts > 1 ? cache.parts : View{}; }
};

void record_texels(Recorder& recorder, const Checked& d) {
  const View& biases = d.attention.biases.values;
  const uint32_t heads = heads_at_once(d.shape);
  // Without a fused rope the cache is not written, and must not seem to be.
  recorder.dispatch(shaders::attend_texel,
                    shaders::AttendTexel::Constants{.soft_cap = d.attention.soft_cap > 0,
                                                    .alibi = d.attention.alibi,
                                                    .mask = d.mask(),
                                                    .biased = biases.buffer != nullptr,
                                                    .heads = heads,
                                                    .dim = d.shape.head_dim,
                                                    .rotates = d.rotates(),
                                                    .adjacent = d.adjacent(),
                                                    .rotary_dim = d.rotary_dim(),
                                                    .parted = d.parts > 1,
                                                    .key_format = d.cache.format.keys,
                                                    .member_tokens = d.cache.member_tokens,
                                                    .sinks = d.attention.sinks.buffer != nullptr,
                                                    .value_format = d.cache.format.values},
                    shaders::AttendTexel::Bindings{.state = d.state,
                                                   .qkv = d.q,
                                                   .keys = d.cache.keys,
                                                   .values = d.cache.values,
                                                   .y = d.y,
                                                   .biases = biases,
                                                   .rope_table = d.rotates() ? d.fused_rope->rope_table : View{},
                                                   .new_keys = d.rotates() ? d.cache.keys : View{},
                                                   .new_values = d.rotates() ? d.cache.values : View{},
                                                   .parts = d.scratch(),
                                                   .sinks = d.attention.sinks},
                    d.push, {d.shape.heads / heads, d.tokens, d.parts});
}

void record_lanes(Recorder& recorder, const Checked& d) {
  const Plan& plan = recorder.device().plan();
  const View& biases = d.attention.biases.values;
  const uint32_t heads = heads_of_group(plan, d.shape);
  recorder.dispatch(plan.subgroup ? shaders::attend_subgroup : shaders::attend,
                    shaders::Attend::Constants{
                        .threads = std::min(plan.reduce_threads, 128u),  // a lane has a position of a block of 128
                        .soft_cap = d.attention.soft_cap > 0,
                        .alibi = d.attention.alibi,
                        .mask = d.mask(),
                        .biased = biases.buffer != nullptr,
                        .key_format = d.cache.format.keys,
                        .parted = d.parts > 1,
                        .rotates = d.rotates(),
                        .adjacent = d.adjacent(),
                        .rotary_dim = d.rotary_dim(),
                        .member_tokens = d.cache.member_tokens,
                        .dim = d.shape.head_dim,
                        .rows = heads * d.tokens_at_once,
                        .step = plan.block_tokens < 4 ? 1u : 4u,
                        .most_parts = d.parts > 1 ? kMostParts : 1,
                        .sinks = d.attention.sinks.buffer != nullptr,
                        .value_format = d.cache.format.values,
                        .tokens = d.tokens_at_once},
                    shaders::Attend::Bindings{.state = d.state,
                                              .qkv = d.q,
                                              .keys = d.cache.keys,
                                              .values = d.cache.values,
                                              .y = d.y,
                                              .biases = d.rotates() ? d.fused_rope->rope_table : biases,
                                              .parts = d.scratch(),
                                              .sinks = d.attention.sinks},
                    d.push, {d.shape.heads / heads, d.tokens / d.tokens_at_once, d.parts});
}

}  // namespace

void attend(Recorder& recorder, const HeadShape& shape, const Attention& attention, const View& state, const View& q,
            const CacheView& cache, const View& y, uint32_t tokens, const FusedRope* fused_rope) {
  const Plan& plan = recorder.device().plan();
  const uint32_t q_dim = shape.heads * shape.head_dim, kv_dim = shape.kv_heads * shape.head_dim;
  const uint32_t stride = stride_of(q_dim), q_stride = fused_rope ? stride_of(q_dim + 2 * kv_dim) : stride;
  require(shape.head_dim > 0 && shape.head_dim % 2 == 0 && shape.head_dim <= kMostHeadDim, "attend",
          "the head dimension must be even and 2 to 512");
  require(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attend",
          "heads are no multiple of key/value heads");
  require_bytes(q, uint64_t{tokens} * q_stride * 4, "attend", "q");
  require_bytes(y, uint64_t{tokens} * stride * 4, "attend", "y");
  require_cache(shape, cache, "attend");
  require(attention.growth.step > 0, "attend", "queries that grow every 0 positions");
  require(attention.window == 0 || attention.mask != AttentionMask::source, "attend", "a window of a source");
  const uint32_t of_session = cache.member_tokens ? cache.member_tokens : tokens;
  require(tokens % of_session == 0, "attend", "sessions of different numbers of tokens");
  require(!fused_rope || can_fuse_rope(plan, shape, attention, *fused_rope, cache.format, of_session), "attend",
          "heads that only rope can rotate");
  const auto& [biases, reach] = attention.biases;
  // A window is longer than a tree is deep, so that it never hides a row.
  require(
      !cache.tree || (tokens <= TREE_ROWS && cache.member_tokens == 0 && attention.mask == AttentionMask::causal &&
                      !attention.alibi && !biases.buffer && (attention.window == 0 || attention.window >= TREE_ROWS)),
      "attend", "a tree of too many rows, or attention that has none");
  const bool sinks = attention.sinks.buffer != nullptr;
  if (sinks) require_bytes(attention.sinks, uint64_t{shape.heads} * 4, "attend", "sinks");
  if (biases.buffer) require_bytes(biases, uint64_t{shape.heads} * (2 * uint64_t{reach} + 1) * 4, "attend", "biases");
  const bool texels = by_texels(plan, shape, cache.format);
  const uint32_t parts = parts_of(plan, cache.capacity, tokens, texels ? UINT32_MAX : kMostParts);
  if (parts > 1) require_bytes(cache.parts, part_bytes(plan, shape, cache.capacity, tokens), "attend", "parts");
  const abi::AttendPush push = {shape.heads,
                                shape.kv_heads,
                                shape.head_dim,
                                q_stride,
                                stride,
                                cache.capacity,
                                attention.scale,
                                attention.window ? attention.window : UINT32_MAX,
                                attention.soft_cap,
                                reach,
                                parts > 1 ? plan.attend_span : UINT32_MAX / 2,
                                parts > 1 ? static_cast<uint32_t>(cache.parts.bytes / 4) : 0,
                                attention.growth.rate,
                                attention.growth.step};
  const uint32_t at_once =
      texels || fused_rope ? 1 : tokens_of_group(plan, shape, attention, cache, tokens, of_session);
  const Checked checked = {shape, attention, state, q, cache, y, fused_rope, tokens, at_once, parts, push};
  texels ? record_texels(recorder, checked) : record_lanes(recorder, checked);
}

}  // namespace weft::ops
