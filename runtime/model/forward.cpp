// One token (or a chunk of prompt tokens) through the network, top to bottom. Read this first: almost every line is an
// operation, and an operation NAME is ops/NAME.cpp, shaders/NAME.comp, tests/ops/NAME_test.cpp and the row NAME of a
// profile. A suffix is another use of the same files: project_best is in ops/project.cpp, rotate_back in
// ops/rotate.cpp. The layers' parts are in mixers/ and mlps/, what follows the layers is in head.cpp.
#include "model/forward.h"

#include <algorithm>
#include <cstddef>

#include "model/network.h"

namespace weft {
namespace {

// The tokens' rows of the vocabulary table. Gathering leaves rows alone that the device does not have.
void gather(const Network& n, const Matrix& embedding, const View& rows) {
  if (n.pass.shards) n.r.copy(n.pass.shards.rows.part(0, uint64_t{n.tokens} * stride_of(n.c.width) * 4), rows);
  ops::gather(n.r, embedding, n.state, n.pass.step.history, rows, n.tokens, n.c.embedding_scale);
}

void embed(const Network& n) {
  const Config& c = n.c;
  const Activations& a = n.a;
  const Matrix& embedding = n.w.embedding->matrix();
  const bool rotated = embedding.layout == Layout::planes, normed = c.layer_kind.embedding_norm;
  for (const Pass& one : n.pass.sessions())
    gather(Network(n.r, one), embedding, rotated ? one.a.rotated : normed ? one.a.normed : one.a.x);
  const ops::BeginNorm begin = {n.w.attention_norm(0), a.begun};
  const bool begins = n.embedding_begins_norm();
  const bool later = std::ranges::any_of(n.pass.sessions(), [](const Pass& one) { return one.soft_rows.buffer; });
  if (rotated)
    ops::rotate_back(n.r, embedding, a.rotated, normed ? a.normed : a.x, n.tokens, begins && !later ? &begin : nullptr);
  for (const Pass& one : n.pass.sessions()) {
    const View& rows = normed ? one.a.normed : one.a.x;
    if (one.soft_rows.buffer)
      ops::insert_rows(n.r, one.step.state, one.step.history, one.soft_rows, rows, c.width, one.tokens);
    if (c.has_position_table()) ops::add_positions(n.r, one.step.state, n.w.positions, rows, c.width, one.tokens);
  }
  if (begins && later) ops::begin_norm(n.r, embedding, a.x, begin, n.tokens);
  if (normed) n.norm(a.normed, n.w.embedding_norm, a.x);
  if (n.w.layer_inputs) n.w.layer_inputs->record(n);
}

// x += rows of the soft tokens that are parts of pictures (DeepStack: Meng et al. 2024).
void add_rows(const Network& n, uint32_t layer) {
  for (const Pass& one : n.pass.sessions())
    if (layer < one.deepstack.size())
      ops::insert_rows(n.r, one.step.state, one.step.history, one.deepstack[layer], one.a.x, n.c.width, one.tokens,
                       ops::Output::add);
}

// x += mixer(norm(x)), then x += mlp(norm(x)): Llama's group (Touvron et al. 2023), and what other families add to it.
// In a parallel group (Wang and Komatsuzaki 2021, "GPT-J-6B") both branches read the same x. If norms come after the
// branches, x = norm(x + mixer(x)), then x = norm(x + mlp(x)): the Transformer's first form (Vaswani et al. 2017). Its
// very last norm is the network's final one, which the head and Encoder apply.
void record(const Network& n, uint32_t index) {
  const Layer& layer = n.w.layers[index];
  const LayerKind& kind = n.c.layer_kind;
  const bool last = index + 1 == n.c.layers;
  // The norm of x begins where the last rows were added to it.
  const View norm = n.w.attention_norm(index),
             next = last || n.adds_rows(index) ? View() : n.w.attention_norm(index + 1);
  const Linear* const before = index == 0 || n.adds_rows(index - 1) ? nullptr : n.w.layers[index - 1].last();

  const ops::Input read = index == 0 ? n.first_input() : n.branch_input(norm, before);
  const View mixed = std::visit([&](const auto& mixer) { return mixer.record(n, index, read); }, layer.mixer);
  if (!kind.parallel) n.add_branch(layer.mixer_out(), mixed, {layer.mixer_branch_norm, layer.ffn_norm});
  if (!kind.parallel) n.close_branch(norm);
  if (layer.cross) layer.cross->record(n, index);

  const ops::Input inner = kind.shared_norm ? read : n.branch_input(layer.ffn_norm, &layer.mixer_out());
  if (kind.parallel) n.add_branch(layer.mixer_out(), mixed, {layer.mixer_branch_norm, {}});
  const BranchEnd end =
      layer.input ? BranchEnd{layer.ffn_branch_norm, {}} : BranchEnd{layer.ffn_branch_norm, next, layer.scale};
  std::visit([&](const auto& mlp) { mlp.record(n, inner, end); }, layer.mlp);
  if (layer.input) layer.input->record(n, index, next, layer.scale);
  if (!last) n.close_branch(layer.ffn_norm);
  add_rows(n, index);
}

// The positions of an encoder that reads sound.
void hear(const Network& n) {
  n.w.sound->record(n);
  ops::add_positions(n.r, n.state, n.w.positions, n.a.x, n.c.width, n.tokens);
}

}  // namespace

void record_embed(Recorder& r, const Pass& pass) {
  if (pass.model.weights.sound) return hear(Network(r, pass));
  constexpr uint64_t kCopied = offsetof(abi::BatchMember, slot);
  for (const Neighbours& some : pass.neighbours)
    for (size_t i = 0; i < some.members.size(); ++i)
      r.copy(View(pass.members[some.members[i]].step.state).part(0, kCopied),
             some.list.part(i * sizeof(abi::BatchMember), kCopied));
  embed(Network(r, pass));
}

void record_input(Recorder& r, const Pass& pass) {
  const Network n(r, pass);
  if (n.embedding_begins_norm())
    ops::begin_norm(r, n.w.embedding->matrix(), n.a.x, {n.w.attention_norm(0), n.a.begun}, n.tokens);
}

void record_layer(Recorder& r, const Pass& pass, uint32_t layer) { record(Network(r, pass), layer); }

}  // namespace weft
