// The feed-forward's activation: y = f(gate) * up (Shazeer 2020, "GLU variants improve transformer"), or y = f(up).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint ACTIVATION = ACTIVATION_SILU;
layout(constant_id = 1) const uint GATED = 1;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float x[]; };    // (pass tokens, in_stride): gate and up, or up
layout(std430, binding = 2) writeonly buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(push_constant) uniform Push { ActivatePush p; };

#include "lib/activation.glsl"

// Grid: x the tokens, y their columns, so that llvmpipe's cores have as many of a short prompt's tokens each.
void main() {
  const uint token = gl_WorkGroupID.x, i = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (i >= p.cols || (token > 0 && state.pos + token >= state.end)) return;
  const float first = activated(x[token * p.in_stride + i]);
  y[token * p.out_stride + i] = GATED != 0 ? first * x[token * p.in_stride + p.cols + i] : first;
}
