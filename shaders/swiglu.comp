// SwiGLU (Shazeer 2020): y = silu(gate) * up.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float gate_up[]; };  // (pass tokens, in_stride): gate, then up
layout(std430, binding = 2) writeonly buffer Output { float y[]; };      // (pass tokens, out_stride)
layout(push_constant) uniform Push { SwigluPush p; };

void main() {
  const uint token = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (i >= p.cols || (token > 0 && state.pos + token >= state.end)) return;
  const float gate = gate_up[token * p.in_stride + i];
  y[token * p.out_stride + i] = gate / (1 + exp(-gate)) * gate_up[token * p.in_stride + p.cols + i];
}
