// norm.comp for llvmpipe: eight lanes a token, which share by shuffles (lib/lanes.glsl) and read four floats a load. For whole texels of columns.
// Variant of: norm
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/lanes.glsl"
#include "lib/spread.glsl"

layout(constant_id = 0) const uint KIND = NORM_RMS;  // as in norm.comp
layout(constant_id = 1) const uint ADD = 0;
layout(local_size_x = LANES) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) uniform usamplerBuffer inputs;         // as in norm.comp, four floats each
layout(binding = 2) uniform usamplerBuffer weights;
layout(std430, binding = 3) buffer Output { vec4 y[]; };
layout(push_constant) uniform Push { NormPush p; };

void main() {
  uint token = spread(gl_WorkGroupID.x, gl_NumWorkGroups.x), out_row = token;
  if (p.last_only != 0) {
    token = max(state.end - state.pos, 1) - 1;
    out_row = 0;
  } else if (token > 0 && state.pos + token >= state.end) {
    return;
  }
  const uint words = p.cols / 4, first = token * p.in_stride / 4;
  float mean = 0;
  if (KIND == NORM_LAYER) {
    vec4 sum = vec4(0);
    for (uint i = gl_SubgroupInvocationID; i < words; i += LANES) sum += uintBitsToFloat(texelFetch(inputs, int(first + i)));
    mean = lanes_sum(sum.x + sum.y + sum.z + sum.w) / float(p.cols);
  }
  float squares = 0;
  for (uint i = gl_SubgroupInvocationID; i < words; i += LANES) {
    const vec4 value = uintBitsToFloat(texelFetch(inputs, int(first + i))) - mean;
    squares += dot(value, value);
  }
  const float scale = inversesqrt(lanes_sum(squares) / float(p.cols) + p.epsilon);
  for (uint i = gl_SubgroupInvocationID; i < words; i += LANES) {
    vec4 value = (uintBitsToFloat(texelFetch(inputs, int(first + i))) - mean) * scale;
    value *= uintBitsToFloat(texelFetch(weights, int(i)));
    if (KIND == NORM_LAYER) value += uintBitsToFloat(texelFetch(weights, int(words + i)));
    if (ADD != 0) value += y[out_row * p.out_stride / 4 + i];
    y[out_row * p.out_stride / 4 + i] = value;
  }
}
