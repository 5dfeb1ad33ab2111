// A pass while it is recorded: what its embedding, its layers and its head are made of. Not for other modules.
#pragma once

#include "model/forward.h"

namespace weft {

// Tokens whose states lie together: a session's, or those of all sessions of a batch whose states share buffers.
struct TokenGroup {
  View state;               // abi::StepState; of several sessions, an abi::BatchMember of each
  const Activations& a;     // the rows of one session; of several sessions, all rows of the pass
  const LayerState& layer;  // of one session, or of all slots of the buffers
  const Pass& first;        // of the session, or of the first one
  uint32_t tokens;          // of all sessions
  uint32_t member_tokens;   // of each one; 0: there is one session
};

// The end of a branch.
struct BranchEnd {
  View norm;        // if the branch has one of its own: x += norm(last(input))
  View next;        // weight of the norm that x goes through then, if any
  float scale = 1;  // x = (x + norm(last(input))) * scale; not without the norm
};

struct Network {
  Network(Recorder& recorder, const Pass& p) : r(recorder), pass(p) {}

  Recorder& r;
  const Pass& pass;
  const Config& c = pass.model.config;
  const Weights& w = pass.model.weights;
  const Activations& a = pass.a;
  const View state = pass.step.state;
  const uint32_t tokens = pass.tokens;

  void norm(const View& x, const View& weight, const View& y, ops::Output output = ops::Output::write) const {
    ops::norm(r, c.norm(), state, x, weight, y, tokens, false, output);
  }
  // a.inner = f(a.gate_up), gated if the family is. ffn: columns of a.inner.
  void activate(uint32_t ffn) const {
    ops::activate(r, c.layer_kind.activation, c.layer_kind.gated, state, a.gate_up, a.inner, ffn, tokens);
  }

  // Input of a branch: norm(x), or x if norms come after the branches. before: the last product of the branch that has
  // been added to x just now, if any.
  ops::Input branch_input(const View& weight, const Linear* before) const;
  // The same for the first layer.
  ops::Input first_input() const;
  // x += last(input), and what `end` says.
  void add_branch(const Linear& last, const ops::Input& input, const BranchEnd& end) const;
  // x = norm(x), if norms come after the branches.
  void close_branch(const View& weight) const {
    if (c.layer_kind.norm_after) norm(a.x, weight, a.x);
  }
  // True if rows are added to soft tokens after this layer.
  bool adds_rows(uint32_t layer) const;
  // True if turning the embedding's rows back begins the first layer's norm: they are x then.
  bool embedding_begins_norm() const;

  // a.scanned = what a layer of linear attention makes of a.projected. weights: as ops::LinearShape has them.
  void scan(const ops::LinearShape& shape, const View& weights, uint32_t layer) const;

  // The first `count` rows of a session, or of a group, in what the pass's tokens have together. Layers may differ in
  // `stride`, the floats between rows, so that views of `own` need not be right.
  View rows_of(const Activations& own, const View& all, uint32_t stride, uint32_t count) const;

  // The pass's tokens by where a layer's states lie.
  std::vector<TokenGroup> groups(uint32_t layer) const;

 private:
  bool begins_norm(const Linear& last) const;
};

}  // namespace weft
