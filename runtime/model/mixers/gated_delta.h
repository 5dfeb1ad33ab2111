// Gated DeltaNet (Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks"), as Qwen 3.5 has it: q, k, v, z, a, b =
// W_in input; q, k and v go through a short convolution; a state of each head is read with q after k and v have changed
// it; the output is W_out (norm(result) silu(z)).
#pragma once

#include "model/linear.h"
#include "model/mixers/matrix_state.h"

namespace weft {

struct Config;
struct Network;
struct Pieces;
struct StateSize;
class Parts;

struct GatedDelta;

struct GatedDeltaConfig {
  using Mixer = GatedDelta;

  ops::LinearShape shape;

  MatrixState state(const Config&, const StateSize&) const { return MatrixState(shape); }
};

struct GatedDelta {
  Linear in;     // (projected_cols, width): q, k, v, z, a, b
  View weights;  // (weight_floats)
  View norm;     // (value_dim), of each head's result
  Linear out;    // (width, heads * value_dim)

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const { return {&in, &out}; }
  // Returns the input of `out`.
  View record(const Network& network, uint32_t index, const ops::Input& input) const;
};

}  // namespace weft
