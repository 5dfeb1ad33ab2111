// The feed-forward's activation: y = f(gate) * up (Shazeer 2020, "GLU variants improve transformer"), or y = f(up). WEFT_TEXEL is for llvmpipe:
// four columns a lane, for whole texels of columns.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(constant_id = 0) const uint ACTIVATION = ACTIVATION_SILU;
layout(constant_id = 1) const uint GATED = 1;
layout(local_size_x = 64) in;
#include "lib/activation.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
// Inputs (pass tokens, copies, in_stride): gate and up, or up. Outputs (pass tokens, copies, out_stride).
#ifdef WEFT_TEXEL
#define WIDTH 4
#define VALUE vec4
layout(binding = 1) uniform usamplerBuffer x;
layout(std430, binding = 2) writeonly buffer Output { vec4 y[]; };
vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(x, int(i))); }
vec4 activated(vec4 value) {
  [[unroll]] for (uint j = 0; j < 4; ++j) value[j] = activated(value[j]);
  return value;
}
vec4 gated(vec4 gate, vec4 up) {
  [[unroll]] for (uint j = 0; j < 4; ++j) gate[j] = gated(gate[j], up[j]);
  return gate;
}
#else
#define WIDTH 1
#define VALUE float
layout(std430, binding = 1) readonly buffer Input { float x[]; };
layout(std430, binding = 2) writeonly buffer Output { float y[]; };
float input_at(uint i) { return x[i]; }
#endif
layout(push_constant) uniform Push { ActivatePush p; };

// Grid: x the tokens' rows, y their columns, so that llvmpipe's cores have as many of a short prompt's tokens each.
void main() {
  const uint row = gl_WorkGroupID.x, token = row / p.copies, i = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (i >= p.cols / WIDTH || (token > 0 && state.pos + token >= state.end)) return;
  const uint first = row * p.in_stride / WIDTH;
  const VALUE value = input_at(first + i);
  y[row * p.out_stride / WIDTH + i] = GATED != 0 ? gated(value, input_at(first + p.cols / WIDTH + i)) : activated(value);
}
