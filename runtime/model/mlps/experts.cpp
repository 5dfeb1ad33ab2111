#include "model/mlps/experts.h"

#include "model/network.h"
#include "model/parts.h"
#include "ops/linear_attention.h"

namespace weft {

void Experts::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const LayerKind& kind = c.layer_kind;
  const uint64_t width = c.width, ffn = c.expert_ffn;
  const uint32_t count = c.experts.count;
  // The router is small and decides between experts: never rounded to less than f16.
  pieces.matrices.push_back({router.base, width, {{"ffn_gate_inp", count}}, kind.expert_bias, 0, Format::f16});
  pieces.matrices.push_back({gate_up, width, parts.tensors().expert_gate_up(index, ffn), kind.expert_bias, count});
  pieces.matrices.push_back({down, ffn, {{"ffn_down_exps", width}}, kind.expert_bias, count});
  if (kind.choice_bias) {
    const char* const what = parts.kind() == ModelFile::Kind::gguf ? "bias" : "";
    pieces.vectors.push_back({choice_bias, {{&parts.tensors().need("exp_probs_b", index, {count}, what)}}});
  }
  if (kind.shared_expert == SharedExpert::none) return;
  shared.list(parts, index, pieces, {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"});
  if (kind.shared_expert == SharedExpert::gated)
    pieces.matrices.push_back({shared_gate.base, width, {{"ffn_gate_inp_shexp", 1}}, false, 0, Format::f16});
}

std::vector<const Linear*> Experts::linears() const {
  std::vector<const Linear*> all = {&router};
  if (has_shared) all.insert(all.end(), {&shared.gate_up, &shared.down});
  if (gates_shared) all.push_back(&shared_gate);
  return all;
}

void Experts::record(const Network& n, const ops::Input& input, const BranchEnd&) const {
  const ops::Experts& experts = n.c.experts;
  const Activations& a = n.a;
  router.apply(n, input.x, a.routing);
  ops::route(n.r, experts, n.state, a.routing, choice_bias, a.chosen, n.tokens);
  ops::matmul_expert(n.r, gate_up, experts, n.state, a.chosen, input.x, a.expert_gate_up, n.tokens,
                     ops::OfChosen::each);
  ops::activate(n.r, n.c.layer_kind.activation, true, n.state, a.expert_gate_up, a.expert_inner, n.c.expert_ffn,
                n.tokens, experts.used);
  ops::matmul_expert(n.r, down, experts, n.state, a.chosen, a.expert_inner, a.x, n.tokens, ops::OfChosen::sum);
  if (n.c.layer_kind.shared_expert != SharedExpert::none) record_shared(n, input);
}

// The gate scales what the last product reads: that has no bias.
void Experts::record_shared(const Network& n, const ops::Input& input) const {
  shared.record_inner(n, input);
  if (n.c.layer_kind.shared_expert == SharedExpert::gated) {
    shared_gate.apply(n, input.x, n.a.shared_gate);
    ops::gate(n.r, {ops::GateKind::of_group, 1, shared.down.base.cols, 1, 0}, n.state, n.a.shared_gate, n.a.shared_gate,
              n.a.inner, n.tokens);
  }
  n.add_branch(shared.down, n.a.inner, {});
}

}  // namespace weft
