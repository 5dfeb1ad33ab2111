// Joins the parts of attend: the softmax over all positions from those over some (Milakov and Gimelshein 2018, section 3.1).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Parts { float parts[]; };  // abi.h, AttendMergePush
layout(std430, binding = 2) writeonly buffer Output { float y[]; };    // (pass tokens, out_stride)
layout(push_constant) uniform Push { AttendMergePush p; };

// Grid: x the dimensions of all heads, y the tokens.
void main() {
  const uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y, dims = p.heads * p.head_dim;
  if (i >= dims || (token > 0 && state.pos + token >= state.end)) return;
  const uint rows = gl_NumWorkGroups.y * p.heads, row = token * p.heads + i / p.head_dim, softmax_sums = p.parts * rows * p.head_dim;
  float peak = -1e30, total = 0, sum = 0;
  for (uint part = 0; part < p.parts; ++part) {
    const uint at = part * rows + row;
    const float weight = parts[softmax_sums + at * 2 + 1];
    if (weight == 0) continue;  // the rest of it was never written
    const float part_peak = parts[softmax_sums + at * 2], new_peak = max(peak, part_peak);
    const float shrink = exp(peak - new_peak), scale = exp(part_peak - new_peak);
    total = total * shrink + weight * scale;
    sum = sum * shrink + parts[at * p.head_dim + i % p.head_dim] * scale;
    peak = new_peak;
  }
  y[token * p.out_stride + i] = sum / total;
}
