// SwiGLU (Shazeer 2020, "GLU variants improve transformer").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// y = silu(gate) * up, silu(z) = z / (1 + exp(-z)).     gate_up (tokens, 2 cols): gate, then up; y (tokens, cols)
Rows swiglu(const Rows& gate_up);

}  // namespace weft::reference
