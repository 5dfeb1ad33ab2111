// Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"), as Granite 4 has it: z, x, B, C, dt = W_in input; x, B and C go
// through a short convolution; a state of each head takes in x by B and is read with C; the output is
// W_out norm((result + D x) silu(z)).
#pragma once

#include "model/linear.h"
#include "model/mixers/matrix_state.h"

namespace weft {

struct Config;
struct Network;
struct Pieces;
struct StateSize;
class Parts;

struct Mamba2;

struct Mamba2Config {
  using Mixer = Mamba2;

  ops::LinearShape shape;
  bool biased = false;  // the products have biases

  MatrixState state(const Config&, const StateSize&) const { return MatrixState(shape); }
};

struct Mamba2 {
  Linear in;     // (projected_cols, width): z, x, B, C, dt
  View weights;  // (weight_floats)
  View norm;     // (heads * value_dim): each group of heads that share B and C is normed by itself
  Linear out;    // (width, heads * value_dim)

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const { return {&in, &out}; }
  // Returns the input of `out`.
  View record(const Network& network, uint32_t index, const ops::Input& input) const;
};

}  // namespace weft
