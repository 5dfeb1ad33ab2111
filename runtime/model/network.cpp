#include "model/network.h"

#include <algorithm>

namespace weft {

bool Network::adds_rows(uint32_t layer) const {
  return std::ranges::any_of(pass.sessions(), [&](const Pass& one) { return layer < one.deepstack.size(); });
}

bool Network::embedding_begins_norm() const {
  return w.embedding && w.embedding->matrix().layout == Layout::planes && c.begins_norms() &&
         !c.layer_kind.embedding_norm && !c.has_position_table() && ops::can_fuse(r.device().plan(), tokens);
}

// True if the branch that ends with this product begins the norm that the next branch's first product ends.
bool Network::begins_norm(const Linear& last) const {
  const Plan& plan = r.device().plan();
  if (!c.begins_norms()) return false;
  return c.layer_kind.norm_branches ? ops::can_fuse(plan, tokens) : ops::can_begin_norm(plan, last.base, tokens);
}

ops::Input Network::branch_input(const View& weight, const Linear* before) const {
  if (c.layer_kind.norm_after || c.layer_kind.unnormed) return a.x;
  if (before && begins_norm(*before))
    return ops::BegunNorm{a.begun, c.norm(),
                          c.layer_kind.norm_branches ? 1 : ops::norm_sums(r.device().plan(), c.width)};
  norm(a.x, weight, a.normed);
  return a.normed;
}

ops::Input Network::first_input() const {
  if (embedding_begins_norm()) return ops::BegunNorm{a.begun, c.norm(), 1};
  if (c.layer_kind.first_unnormed) return a.x;
  return branch_input(w.attention_norm(0), nullptr);
}

void Network::add_branch(const Linear& last, const ops::Input& input, const BranchEnd& end) const {
  const ops::BeginNorm of_next = {end.next, a.begun};
  const ops::BeginNorm* const begin = end.next.buffer && begins_norm(last) ? &of_next : nullptr;
  if (!end.norm.buffer) return last.apply(*this, input, a.x, ops::Output::add, begin);
  last.apply(*this, input, a.normed);
  ops::norm(r, c.norm(), state, a.normed, end.norm, a.x, tokens, false, ops::Output::add, begin, end.scale);
}

constexpr float kKeyEpsilon = 1e-6f;  // of a Gated DeltaNet's keys and queries, in all models

void Network::scan(const ops::LinearShape& shape, const View& weights, uint32_t layer) const {
  for (const TokenGroup& group : groups(layer)) {
    ops::LinearState kept = std::get<MatrixState>(group.layer).kept;
    kept.member_tokens = group.member_tokens;
    const Activations& rows = group.a;
    ops::scan_inputs(r, shape, group.state, rows.projected, weights, kept, rows.prepared, kKeyEpsilon, group.tokens);
    ops::scan(r, shape, group.state, rows.prepared, weights, kept, rows.scanned, group.tokens);
    ops::keep_rows(r, shape, group.state, rows.projected, rows.prepared, kept, group.tokens);
  }
}

View Network::rows_of(const Activations& own, const View& all, uint32_t stride, uint32_t count) const {
  const uint64_t first = (own.x.offset - a.x.offset) / (uint64_t{stride_of(c.width)} * 4);
  return all.part(first * stride * 4, uint64_t{count} * stride * 4);
}

std::vector<TokenGroup> Network::groups(uint32_t layer) const {
  std::vector<TokenGroup> all;
  std::vector<bool> joined(pass.sessions().size());
  for (const Neighbours& some : pass.neighbours) {
    const Pass& first = pass.members[some.members.front()];
    const uint32_t count = static_cast<uint32_t>(some.members.size()) * first.tokens;
    all.push_back({some.list, a, first.context.buffers->layers[layer], first, count, first.tokens});
    for (const uint32_t member : some.members) joined[member] = true;
  }
  for (size_t i = 0; i < joined.size(); ++i) {
    const Pass& one = pass.sessions()[i];
    if (!joined[i]) all.push_back({one.step.state, one.a, one.context.layers[layer], one, one.tokens, 0});
  }
  return all;
}

}  // namespace weft
