// The lowest score that top-k, top-p and min-p let through, in that order. One workgroup: bisects over the
// bits of a score, so that the answer is exact, ties included, without sorting the vocabulary.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(push_constant) uniform Push { PickPush p; };

// Unsigned integers in the order of the floats they come from.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

// How many scores reach a key; or the sum of exp(score - peak) over them.
float reaching(uint key, bool weighted, float peak) {
  float sum = 0;
  for (uint id = gl_LocalInvocationID.x; id < p.rows; id += THREADS) {
    const float score = scores[id];
    if (is_finite(score) && key_of(score) >= key) sum += weighted ? exp(score - peak) : 1.0;
  }
  return workgroup_sum(sum);
}

// The highest key that still `wanted` (a count or a weight) reaches; lowest is known to be reached by it.
uint highest(uint lowest, float wanted, bool weighted, float peak) {
  uint low = lowest, high = key_of(peak) + 1;
  while (high - low > 1) {
    const uint middle = low + (high - low) / 2;
    if (reaching(middle, weighted, peak) >= wanted)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void main() {
  float peak = -3.4e38;
  for (uint id = gl_LocalInvocationID.x; id < p.rows; id += THREADS)
    if (is_finite(scores[id])) peak = max(peak, scores[id]);
  peak = workgroup_max(peak);

  uint key = 0;
  if (params.top_k > 0 && params.top_k < p.rows) key = highest(key, float(params.top_k), false, peak);
  if (params.top_p < 1) key = highest(key, params.top_p * reaching(key, true, peak), true, peak);
  if (gl_LocalInvocationID.x == 0)
    state.threshold = max(key == 0 ? -3.4e38 : value_of(key), peak + params.log_min_p);
}
