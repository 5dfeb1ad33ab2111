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
layout(constant_id = 1) const uint LISTED = 0;
layout(push_constant) uniform Push { PickPush p; };

shared uint high_sum, low_sum;

// Unsigned integers in the order of the floats they come from.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

// How many scores reach a key; or the sum of exp(score - peak) over them, in units of 2^-26. Summed as integers, so that it does not depend
// on which lane has which score: a list of rows gives what the whole vocabulary gives. Two halves of 13 bits, for up to 2^19 scores.
float reaching(uint count, uint key, bool weighted, float peak) {
  uint high = 0, low = 0;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    const float score = scores[i];
    if (!is_finite(score) || key_of(score) < key) continue;
    const uint weight = weighted ? min(uint(exp(score - peak) * 67108864.0), 67108863u) : 1u;
    high += weight >> 13;
    low += weight & 0x1fffu;
  }
  barrier();  // the sums' last readers are done
  if (gl_LocalInvocationID.x == 0) high_sum = low_sum = 0;
  barrier();
  atomicAdd(high_sum, high);
  atomicAdd(low_sum, low);
  barrier();
  return float(high_sum) * 8192.0 + float(low_sum);
}

// The highest key that still `wanted` (a count or a weight) reaches; lowest is known to be reached by it.
uint highest(uint count, uint lowest, float wanted, bool weighted, float peak) {
  uint low = lowest, high = key_of(peak) + 1;
  while (high - low > 1) {
    const uint middle = low + (high - low) / 2;
    if (reaching(count, middle, weighted, peak) >= wanted)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void main() {
  const uint count = LISTED != 0 ? state.head.exact_count : p.rows;
  float peak = -3.4e38;
  for (uint id = gl_LocalInvocationID.x; id < count; id += THREADS)
    if (is_finite(scores[id])) peak = max(peak, scores[id]);
  peak = workgroup_max(peak);

  uint key = 0;
  if (params.top_k > 0 && params.top_k < count) key = highest(count, key, float(params.top_k), false, peak);
  if (params.top_p < 1) key = highest(count, key, params.top_p * reaching(count, key, true, peak), true, peak);
  if (gl_LocalInvocationID.x == 0)
    state.threshold = max(key == 0 ? -3.4e38 : value_of(key), peak + params.log_min_p);
}
