// RMSNorm (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight; or LayerNorm (Ba, Kiros and Hinton 2016):
// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias. One workgroup a token. It may begin an RMSNorm of y, as matmul.comp does.
//
// WEFT_TEXEL is for llvmpipe: eight lanes a token, which share by shuffles and read four floats a load. For whole texels of columns.
// Variants: subgroup texel
// Optional: next_weight begun
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

// Inputs (pass tokens, in_stride). Weights (cols); NORM_LAYER: (2, cols), the biases after the weights. Outputs (pass tokens, out_stride).
#ifdef WEFT_TEXEL
#include "lib/lanes.glsl"
#include "lib/spread.glsl"
layout(local_size_x = LANES) in;
#define THREADS LANES
#define WIDTH 4
#define VALUE vec4
layout(binding = 1) uniform usamplerBuffer x;
layout(binding = 2) uniform usamplerBuffer weight;
layout(binding = 4) uniform usamplerBuffer next_weight;
layout(std430, binding = 3) buffer Output { vec4 y[]; };
layout(std430, binding = 5) writeonly buffer Begun { vec4 begun[]; };
vec4 next_weight_at(uint i) { return uintBitsToFloat(texelFetch(next_weight, int(i))); }
vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(x, int(i))); }
vec4 weight_at(uint i) { return uintBitsToFloat(texelFetch(weight, int(i))); }
#define PADDED(sum) vec4(sum, 0, 0, 0)
#define SUM lanes_sum
float sum_of(vec4 value) { return lanes_sum(value.x + value.y + value.z + value.w); }
uint token_of(uint group) { return spread(group, gl_NumWorkGroups.x); }
#else
#include "lib/reduce.glsl"
#define WIDTH 1
#define VALUE float
layout(std430, binding = 1) readonly buffer Input { float x[]; };
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) buffer Output { float y[]; };
layout(std430, binding = 4) readonly buffer NextWeight { float next_weight[]; };  // (cols)
layout(std430, binding = 5) writeonly buffer Begun { float begun[]; };            // (pass tokens, begun_stride)
float next_weight_at(uint i) { return next_weight[i]; }
float input_at(uint i) { return x[i]; }
float weight_at(uint i) { return weight[i]; }
#define PADDED(sum) sum
#define SUM workgroup_sum
float sum_of(float value) { return workgroup_sum(value); }
uint token_of(uint group) { return group; }
#endif

layout(constant_id = 1) const uint KIND = NORM_RMS;
layout(constant_id = 2) const uint ADD = 0;  // 1: y = (y + the norm) * scale
layout(constant_id = 3) const uint BEGINS_NORM = 0;  // 1: y is written as rows of a norm that is begun (abi.h), too

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(push_constant) uniform Push { NormPush p; };

void main() {
  uint token = token_of(gl_WorkGroupID.x), out_row = token;
  if (p.last_only != 0) {
    token = max(state.end - state.pos, 1) - 1;
    out_row = 0;
  } else if (token > 0 && state.pos + token >= state.end) {
    return;
  }
  const uint words = p.cols / WIDTH, first = token * p.in_stride / WIDTH, first_out = out_row * p.out_stride / WIDTH;
  float mean = 0;
  if (KIND == NORM_LAYER) {
    VALUE sum = VALUE(0);
    for (uint i = gl_LocalInvocationID.x; i < words; i += THREADS) sum += input_at(first + i);
    mean = sum_of(sum) / float(p.cols);
  }
  float squares = 0;
  for (uint i = gl_LocalInvocationID.x; i < words; i += THREADS) {
    const VALUE value = input_at(first + i) - mean;
    squares += dot(value, value);
  }
  const float scale = inversesqrt(SUM(squares) / float(p.cols) + p.epsilon);
  float next_squares = 0;
  for (uint i = gl_LocalInvocationID.x; i < words; i += THREADS) {
    VALUE value = (input_at(first + i) - mean) * scale * weight_at(i);
    if (KIND == NORM_LAYER) value += weight_at(words + i);
    if (ADD != 0) value = (value + y[first_out + i]) * p.scale;
    y[first_out + i] = value;
    if (BEGINS_NORM != 0) {
      begun[token * p.begun_stride / WIDTH + i] = value * next_weight_at(i);
      next_squares += dot(value, value);
    }
  }
  if (BEGINS_NORM == 0) return;
  const float next_sum = SUM(next_squares);
  if (gl_LocalInvocationID.x == 0) begun[(token * p.begun_stride + NORM_SUMS_AT(p.cols)) / WIDTH] = PADDED(next_sum);
}
