// Attention (Vaswani et al. 2017): over all earlier tokens, over a window of them, or over the whole text.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/copied_range.h"
#include "model/linear.h"

namespace weft {

struct Config;
struct ContextState;
struct Network;
struct Pieces;
struct StateSize;
class Parts;

struct Attention;
struct AttentionState;

// A layer's attention, beside what all of a model's have in common (Config).
struct AttentionConfig {
  using Mixer = Attention;

  uint32_t window = 0;                  // positions a token sees, its own last; 0: all up to its own
  uint32_t rope = 0;                    // index into Config::ropes
  uint32_t rotary_dim = 0;              // leading dimensions of a head that RoPE rotates; 0: none
  ops::HeadShape heads = {};            // without heads: the model's (Config::heads)
  std::optional<uint32_t> source = {};  // earlier layer whose keys and values are read; none: the layer has its own
  bool keys_are_values = false;         // the values are the product of the keys, before its norm

  AttentionState state(const Config& config, const StateSize& size) const;
};

// The keys and values of a layer. A layer with a window keeps only the positions that the window spans in a pass. A
// layer that reads another's has no arrays.
struct AttentionState {
  static constexpr bool kRecurrent = false;

  ops::CacheView cache;  // without scratch
  uint32_t kv_heads = 0, window = 0;
  bool shared = false;  // the arrays are another layer's
  uint64_t scratch_bytes = 0;

  std::vector<View*> arrays() {
    if (shared) return {};
    return {&cache.keys, &cache.values};
  }
  bool holds(uint64_t tokens, uint64_t written) const;
  std::vector<View> parts(uint64_t tokens, uint64_t written) const;
  static CopiedRange copied(uint64_t tokens) { return {0, tokens}; }
  double bytes_read(uint64_t position, uint64_t source) const;
};

struct Attention {
  Linear qkv;  // (q + k + v rows, width): three matrices, one after the other; without k and v if they are shared
  bool gated = false;
  Linear gate;      // (heads * head_dim or heads, width), if the attention is gated
  View head_norms;  // as ops::norm_heads or ops::norm_rows has them
  View query_norm;  // (head_dim), if heads are normed after RoPE: the weights of queries times those of keys
  View sinks;       // (heads), if the attention has them
  Linear out;       // (width, heads * head_dim)

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const;
  // Writes the tokens' keys and values to their states, and lets the tokens see what is there. Returns the input of
  // `out`.
  View record(const Network& network, uint32_t index, const ops::Input& input) const;
};

// Attention of a decoder's tokens to the output of an encoder: the keys and values are the input's, computed once.
struct CrossAttention {
  View norm;   // (width)
  Linear q;    // (heads * head_dim, width)
  Matrix kv;   // (k + v rows, width), once for an input
  Linear out;  // as Attention's

  void list(Parts& parts, int index, Pieces& pieces);
  // Computes the keys and values of an input: `states` (tokens, stride_of(width)) are the encoder's.
  void read(Recorder& recorder, const Config& config, const View& step, const View& states, const View& rope_table,
            const View& kv_rows, const View& q_rows, const ContextState& to, uint32_t index, uint32_t tokens) const;
  // x += attention(norm(x)).
  void record(const Network& network, uint32_t index) const;
};

}  // namespace weft
