#include "model/mixers/attention.h"

#include <algorithm>

#include "base/error.h"
#include "model/network.h"
#include "model/parts.h"
#include "ops/linear_attention.h"

namespace weft {
namespace {

ops::CacheView with_scratch(const LayerState& state, const ContextState& context) {
  ops::CacheView cache = std::get<AttentionState>(state).cache;
  cache.parts = context.scratch();
  return cache;
}

}  // namespace

AttentionState AttentionConfig::state(const Config& config, const StateSize& size) const {
  if (config.layer_kind.norm_rotated && size.format.keys == Format::q4)
    throw Error(Code::unsupported,
                "the family '" + config.family + "' norms its queries after they are rotated: keys cannot be q4", "kv",
                "keys of f16 or q8 and values of q4 are possible");
  const uint32_t context = size.context;
  const uint64_t needed = window ? std::min<uint64_t>(context, uint64_t{window} + size.pass_tokens - 1) : context;
  const uint32_t capacity = static_cast<uint32_t>(align_up(needed, TILE_ROWS));
  const ops::HeadShape& shape = config.shape_of(*this);
  AttentionState state = {{{}, {}, capacity, size.format, {}}, shape.kv_heads, window, source.has_value()};
  state.cache.keys.bytes = ops::key_bytes(shape, capacity, size.format.keys);
  state.cache.values.bytes = ops::value_bytes(shape, capacity, size.format.values);
  state.scratch_bytes = ops::part_bytes(size.plan, shape, capacity, size.pass_tokens);
  const uint64_t largest = std::max(state.cache.keys.bytes, state.cache.values.bytes);
  if (largest > size.plan.slice_bytes)
    throw Error(Code::unsupported,
                "a context of " + std::to_string(context) + " tokens takes " + std::to_string(largest) +
                    " bytes of keys a layer, a binding of this device reaches " + std::to_string(size.plan.slice_bytes),
                "context", "use a smaller context");
  return state;
}

bool AttentionState::holds(uint64_t tokens, uint64_t written) const {
  const uint64_t first = window ? tokens + 1 - std::min<uint64_t>(tokens + 1, window) : 0;  // that the next token sees
  return first + cache.capacity >= written;
}

// The tiles in use of each head: a ring has what was written, not only what counts.
std::vector<View> AttentionState::parts(uint64_t tokens, uint64_t written) const {
  std::vector<View> parts;
  const uint64_t slots = std::min<uint64_t>(align_up(window ? written : tokens, TILE_ROWS), cache.capacity);
  if (slots == 0 || shared) return parts;
  for (const View& view : {cache.keys, cache.values})
    for (uint32_t head = 0; head < kv_heads; ++head)
      parts.push_back(view.part(view.bytes / kv_heads * head, view.bytes / kv_heads / cache.capacity * slots));
  return parts;
}

double AttentionState::bytes_read(uint64_t position, uint64_t source) const {
  const uint64_t seen = window ? std::min<uint64_t>(position, window) : position;
  return static_cast<double>((cache.keys.bytes + cache.values.bytes) / cache.capacity * (seen + source));
}

void Attention::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const AttentionConfig& own = c.attention_of(static_cast<uint32_t>(index));
  const ops::HeadShape& shape = c.shape_of(own);
  const uint64_t q = uint64_t{shape.heads} * shape.head_dim, kv = uint64_t{shape.kv_heads} * shape.head_dim;
  // Some families store q, k and v as one.
  const bool with_gates = c.layer_kind.attention_gate == AttentionGate::values;
  std::vector<Part> sources = {{"attn_q", q, with_gates ? 2u : 1u}};
  if (parts.tensors().find("attn_qkv", index)) {
    sources = {{"attn_qkv", q + 2 * kv}};
  } else if (own.source) {
    // Files may have these, which nothing reads.
    for (const char* role : {"attn_k", "attn_v", "attn_k_norm"}) parts.tensors().find(role, index);
  } else {
    sources.push_back({"attn_k", kv});
    sources.push_back({own.keys_are_values ? "attn_k" : "attn_v", kv});
  }
  pieces.matrices.push_back({qkv.base, c.width, sources, c.layer_kind.qkv_bias});
  if (with_gates) pieces.matrices.push_back({gate.base, c.width, {{"attn_q", q, 2, 1}}, false});
  if (c.layer_kind.attention_gate == AttentionGate::heads)
    pieces.matrices.push_back({gate.base, c.width, {{"attn_gate", shape.heads}}, false});
  pieces.matrices.push_back({out.base, q, {{"attn_output", c.width}}, c.layer_kind.out_bias});
  if (c.layer_kind.sinks) {
    const char* const what = parts.kind() == ModelFile::Kind::gguf ? "weight" : "";
    pieces.vectors.push_back({sinks, {{&parts.tensors().need("attn_sinks", index, {c.heads.heads}, what)}}});
  }
  if (c.layer_kind.norm_rows)
    pieces.vectors.push_back({head_norms,
                              {{&parts.tensors().need("attn_q_norm", index, {q}), c.norm_offset},
                               {&parts.tensors().need("attn_k_norm", index, {kv}), c.norm_offset}}});
  if (c.layer_kind.norm_rotated) {
    const std::vector<uint64_t> dims = {shape.head_dim};
    pieces.vectors.push_back({head_norms, {{nullptr, 1, 2 * shape.head_dim}}});
    pieces.vectors.push_back({query_norm,
                              {{.tensor = &parts.tensors().need("attn_q_norm", index, dims),
                                .factor = &parts.tensors().need("attn_k_norm", index, dims)}}});
  }
  if (!c.layer_kind.norm_heads) return;
  const std::vector<uint64_t> dims = {shape.head_dim};
  std::vector<Floats> norms = {{&parts.tensors().need("attn_q_norm", index, dims), c.norm_offset}};
  if (!own.source) norms.push_back({&parts.tensors().need("attn_k_norm", index, dims), c.norm_offset});
  if (!own.source && c.layer_kind.norm_values) norms.push_back({nullptr, 1, shape.head_dim});
  pieces.vectors.push_back({head_norms, std::move(norms)});
}

std::vector<const Linear*> Attention::linears() const {
  std::vector<const Linear*> all = {&qkv, &out};
  if (gated) all.push_back(&gate);
  return all;
}

View Attention::record(const Network& n, uint32_t index, const ops::Input& input) const {
  const Config& c = n.c;
  const AttentionConfig& own = c.attention_of(index);
  const ops::HeadShape& shape = c.shape_of(own);
  const ops::HeadShape projected = {shape.heads, own.source ? 0 : shape.kv_heads, shape.head_dim};
  qkv.apply(n, input, n.a.qkv);
  if (gated) gate.apply(n, input, n.a.gates);
  if (c.layer_kind.norm_heads || c.layer_kind.norm_rotated)
    ops::norm_heads(n.r, projected, n.state, head_norms, n.a.qkv, c.mixer_epsilon, n.tokens, c.layer_kind.norm_values);
  if (c.layer_kind.norm_rows) ops::norm_rows(n.r, projected, n.state, head_norms, n.a.qkv, c.mixer_epsilon, n.tokens);
  ops::Attention attention = c.attention(index);
  if (n.pass.picture) attention.mask = ops::AttentionMask::none;
  if (n.w.score_biases) attention.biases = {n.w.score_biases, c.buckets.farthest};
  attention.sinks = sinks;
  const auto fused_rope = [&](const TokenGroup& group) {
    return ops::FusedRope{c.pairs, own.rotary_dim, group.first.step.rope_tables[own.rope]};
  };
  const auto cache_of = [](const TokenGroup& group) {
    ops::CacheView cache = with_scratch(group.layer, group.first.context);
    cache.member_tokens = group.member_tokens;
    cache.tree = group.first.tree;
    return cache;
  };
  const std::vector<TokenGroup> groups = n.groups(own.source.value_or(index));
  // Sessions of a batch may have caches of different types.
  const bool fused =
      !own.source && !c.layer_kind.norm_rotated && std::ranges::all_of(groups, [&](const TokenGroup& group) {
        return ops::can_fuse_rope(n.r.device().plan(), shape, attention, fused_rope(group), cache_of(group).format,
                                  n.pass.sessions().front().tokens);
      });
  const uint32_t queries = shape.heads * shape.head_dim;
  // Sessions side by side may have any rows of the pass.
  const auto rows_of = [&](const TokenGroup& group, const View& all, uint32_t cols) {
    return n.rows_of(group.a, all, stride_of(cols), group.member_tokens ? n.tokens : group.tokens);
  };
  const auto qkv_of = [&](const TokenGroup& group) { return rows_of(group, n.a.qkv, qkv.base.rows); };
  if (!fused)
    for (const TokenGroup& group : groups)
      ops::rope(n.r, projected, c.pairs, own.rotary_dim, group.state, qkv_of(group),
                group.first.step.rope_tables[own.rope], rows_of(group, n.a.q, queries), cache_of(group), group.tokens);
  // A rotation keeps a head's norm, so heads were normed before it. A score has each weight of queries beside that of
  // keys: the queries get both, and the cache has keys without weights.
  if (c.layer_kind.norm_rotated)
    ops::norm_heads(n.r, {shape.heads, 0, shape.head_dim}, n.state, query_norm, n.a.q, c.mixer_epsilon, n.tokens);
  for (const TokenGroup& group : groups) {
    const ops::FusedRope rotation = fused_rope(group);
    ops::attend(n.r, shape, attention, group.state, fused ? qkv_of(group) : rows_of(group, n.a.q, queries),
                cache_of(group), rows_of(group, n.a.attended, queries), group.tokens, fused ? &rotation : nullptr);
  }
  if (gated) {
    const bool each = c.layer_kind.attention_gate == AttentionGate::values;
    ops::gate(n.r,
              {each ? ops::GateKind::sigmoid : ops::GateKind::of_group, shape.heads, shape.head_dim, gate.base.rows, 0},
              n.state, n.a.gates, View(), n.a.attended, n.tokens);
  }
  return n.a.attended;
}

void CrossAttention::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const uint64_t rows = c.query_dim(), kv_rows = c.kv_dim();
  const bool biased = c.layer_kind.qkv_bias;
  pieces.vectors.push_back({norm, parts.norm_parts("cross_attn_norm", index)});
  pieces.matrices.push_back({q.base, c.width, {{"cross_attn_q", rows}}, biased});
  pieces.matrices.push_back({kv, c.width, {{"cross_attn_k", kv_rows}, {"cross_attn_v", kv_rows}}, biased});
  pieces.matrices.push_back({out.base, rows, {{"cross_attn_o", c.width}}, c.layer_kind.out_bias});
}

void CrossAttention::read(Recorder& r, const Config& c, const View& step, const View& states, const View& rope_table,
                          const View& kv_rows, const View& q_rows, const ContextState& to, uint32_t index,
                          uint32_t tokens) const {
  ops::matmul(r, kv, step, states, kv_rows, tokens, ops::Output::write);
  // Without queries and rotation, rope only writes keys and values to the cache.
  ops::rope(r, {0, c.heads.kv_heads, c.heads.head_dim}, c.pairs, 0, step, kv_rows, rope_table, q_rows,
            with_scratch(to.layers[index], to), tokens);
}

void CrossAttention::record(const Network& n, uint32_t index) const {
  q.apply(n, n.branch_input(norm, nullptr), n.a.q);
  ops::attend(n.r, n.c.heads, {.scale = n.c.attention_scale, .mask = ops::AttentionMask::source}, n.state, n.a.q,
              with_scratch(n.pass.source->layers[index], *n.pass.source), n.a.attended, n.tokens);
  n.add_branch(out, n.a.attended, {});
  n.close_branch(norm);
}

}  // namespace weft
