// Output of a Medusa head for a hidden state (Cai et al. 2024, section 2.1): y = x + silu(z), with z = W x + b. One matrix has the products of all
// heads, so z has the heads' rows one after the other, and so has y.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

const uint ACTIVATION = ACTIVATION_SILU;
layout(local_size_x = 64) in;
#include "lib/activation.glsl"

layout(std430, binding = 0) readonly buffer Input { float x[]; };     // (stride)
layout(std430, binding = 1) readonly buffer Branches { float z[]; };  // (rows, stride)
layout(std430, binding = 2) writeonly buffer Output { float y[]; };   // (rows, stride)
layout(push_constant) uniform Push { ResidualPush p; };

// Grid: x the columns, y the rows.
void main() {
  const uint i = gl_GlobalInvocationID.x, at = gl_WorkGroupID.y * p.stride + i;
  if (i < p.cols) y[at] = x[i] + activated(z[at]);
}
