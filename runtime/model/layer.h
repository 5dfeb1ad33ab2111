// A model is a list of layers: x += mixer(norm(x)), then x += mlp(norm(x)).
//
// A mixer is a file in mixers/: what its configuration is, which tensors it has, how it is recorded, and what it keeps
// of a session's context, its state. An mlp is a file in mlps/. A new one is its file, its name here, and a reader of
// its configuration (config_mixers.cpp). A mixer's last product is called `out`; its configuration says
// `using Mixer = ...`.
//
// Outside mixers/, only what is for one kind of state alone knows which one a layer has: trees of guesses, the scan of
// linear attention, times of words. A state answers these questions:
//   how large is it?              the bytes of `arrays`
//   how much scratch?             `scratch_bytes`, which all layers share
//   can it go back to n tokens?   `holds`: false if what the next token needs was overwritten, `written` - 1 being the
//                                 highest position ever written. A cache of keys can go back anywhere, a recurrent
//                                 state nowhere but a few tokens: `kRecurrent`; there are checkpoints of it
//                                 (kept_context.h)
//   which bytes are the first n tokens'?
//                                 `parts`: to copy them to another session, to save and to load them. A copy of n
//                                 tokens can go on from the numbers of tokens in `copied(n)` only
//   which drafted tokens stay?    all are written, and those that are refused written again: a recurrent state has room
//                                 for kMostTakenBack more, attention with a window for a whole pass
//   what does a token read?       `bytes_read`
#pragma once

#include <optional>
#include <variant>

#include "model/copied_range.h"
#include "model/layer_input.h"
#include "model/mixers/attention.h"
#include "model/mixers/gated_delta.h"
#include "model/mixers/mamba2.h"
#include "model/mixers/short_conv.h"
#include "model/mlps/dense.h"
#include "model/mlps/experts.h"

namespace weft {

using MixerConfig = std::variant<AttentionConfig, ShortConvConfig, GatedDeltaConfig, Mamba2Config>;
using Mixer = std::variant<Attention, ShortConv, GatedDelta, Mamba2>;
using LayerState = std::variant<AttentionState, ShortConvState, MatrixState>;
using Mlp = std::variant<Dense, Experts>;

// One layer's description.
struct LayerConfig {
  MixerConfig mixer;
  uint32_t ffn = 0;      // 0: the model's (Config::ffn)
  bool experts = false;  // the mlp is a mixture of experts
};

// The shape of a mixer that is linear attention; nullptr for other mixers.
inline const ops::LinearShape* linear_shape(const MixerConfig& mixer) {
  if (const auto* delta = std::get_if<GatedDeltaConfig>(&mixer)) return &delta->shape;
  if (const auto* mamba = std::get_if<Mamba2Config>(&mixer)) return &mamba->shape;
  return nullptr;
}

// One layer in one buffer: its matrices as tiles; its norms, except the first, and the matrices' biases as floats.
// Norms of kind layer are (2, width): weights, then biases. A part that the layer does not have is without a buffer.
struct Layer {
  Layer() = default;
  Layer(const Config& config, uint32_t index);

  Buffer buffer;
  Mixer mixer;
  std::optional<CrossAttention> cross;  // if the layer attends to an encoder's output too
  View ffn_norm;                        // (width); without a buffer if the mixer's is for both
  Mlp mlp;
  View mixer_branch_norm, ffn_branch_norm;  // (width) of what is added to x
  std::optional<LayerInput> input;          // the last branch, if the layer has an embedding of its own
  float scale = 1;                          // x is multiplied by it after the last branch

  void list(Parts& parts, int index, Pieces& pieces);
  const Linear& mixer_out() const;             // the mixer's last product, which is added to x
  const Linear* last() const;                  // of the last branch, if it is one product
  std::vector<const Linear*> linears() const;  // all that every token goes through, in a fixed order
};

}  // namespace weft
