// activate.comp for llvmpipe: four elements a lane, which it reads and writes at once. For whole texels of columns.
// Variant of: activate
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(constant_id = 0) const uint ACTIVATION = ACTIVATION_SILU;  // as in activate.comp
layout(constant_id = 1) const uint GATED = 1;
layout(local_size_x = 64) in;
#include "lib/activation.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) uniform usamplerBuffer inputs;  // as in activate.comp, four floats each
layout(std430, binding = 2) writeonly buffer Output { vec4 y[]; };
layout(push_constant) uniform Push { ActivatePush p; };

// Grid: x the tokens, y their columns, so that llvmpipe's cores have as many of a short prompt's tokens each.
void main() {
  const uint token = gl_WorkGroupID.x, i = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (i >= p.cols / 4 || (token > 0 && state.pos + token >= state.end)) return;
  vec4 value = uintBitsToFloat(texelFetch(inputs, int(token * p.in_stride / 4 + i)));
  [[unroll]] for (uint j = 0; j < 4; ++j) value[j] = activated(value[j]);
  if (GATED != 0) value *= uintBitsToFloat(texelFetch(inputs, int((token * p.in_stride + p.cols) / 4 + i)));
  y[token * p.out_stride / 4 + i] = value;
}
