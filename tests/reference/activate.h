// The feed-forward's activation: SwiGLU and GeGLU (Shazeer 2020, "GLU variants improve transformer"), or GELU
// (Hendrycks and Gimpel 2016, "Gaussian error linear units") alone.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

enum class Activation { silu, gelu, gelu_tanh, relu, tanh, clamped, relu_squared };  // clamped: not by itself
double activated(Activation activation, double value);

// y = f(gate) * up; clamped: with g = min(gate, 7) and u = up within -7 .. 7, g sigmoid(1.702 g) (u + 1), gpt-oss's.
//                       x (tokens, 2 cols): gate, then up; y (tokens, cols)
// not gated: y = f(x).  x (tokens, cols)
Rows activate(Activation activation, bool gated, const Rows& x);

}  // namespace weft::reference
