// The lowest score that top-k, top-p and min-p let through, in that order. One workgroup: it finds a score's bits eight at a time, from
// histograms of what the scores that share the bits above count or weigh. So the answer is exact, ties included, without sorting the
// vocabulary, after a sweep for the peak and four for each filter; what a small top-k leaves fits in shared memory.
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

const uint BINS = 256, GROUP = 16;
const uint KEPT = 512;  // scores

// A bin's count, or its weight in units of 2^-26, as sums of two halves of 13 bits, for up to 2^19 scores. Integers, so that it does not
// depend on which lane has which score: a list of rows gives what the whole vocabulary gives.
shared uint high_sums[BINS], low_sums[BINS];
shared uint group_high[BINS / GROUP], group_low[BINS / GROUP];
shared uint found_bin;
shared uvec2 sum_above;  // of the bins above the one found
shared float kept[KEPT];
shared uint kept_count;

// Unsigned integers in the order of the floats they come from.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

float total(uvec2 sum) { return float(sum.x) * 8192.0 + float(sum.y); }

// Where the scores to look at are: all `count`, or the kept ones.
struct Source {
  uint count;
  bool kept_only;
};
float score_at(Source source, uint i) { return source.kept_only ? kept[i] : scores[i]; }

// Fills the bins with the scores that reach `floor_key` and whose bits above shift + 8 are the prefix's.
void fill_bins(Source source, uint floor_key, uint prefix, uint shift, bool weighted, float peak) {
  barrier();  // the bins' last readers are done
  for (uint i = gl_LocalInvocationID.x; i < BINS; i += THREADS) high_sums[i] = low_sums[i] = 0;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = score_at(source, i);
    const uint key = key_of(score);
    if (!is_finite(score) || key < floor_key || (shift < 24 && key >> (shift + 8) != prefix)) continue;
    const uint weight = weighted ? min(uint(exp(score - peak) * 67108864.0), 67108863u) : 1u, bin = key >> shift & (BINS - 1);
    if (weight >> 13 != 0) atomicAdd(high_sums[bin], weight >> 13);
    atomicAdd(low_sums[bin], weight & 0x1fffu);
  }
  barrier();
  for (uint g = gl_LocalInvocationID.x; g < BINS / GROUP; g += THREADS) {
    uvec2 sum = uvec2(0);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; ++i) sum += uvec2(high_sums[i], low_sums[i]);
    group_high[g] = sum.x;
    group_low[g] = sum.y;
  }
  barrier();
}

// The sum over all bins.
uvec2 all_bins() {
  uvec2 sum = uvec2(0);
  for (uint g = 0; g < BINS / GROUP; ++g) sum += uvec2(group_high[g], group_low[g]);
  return sum;
}

// The highest bin with which the sum from the top reaches `wanted`; `above` is what lies above all bins, then above the one found. BINS
// if none does.
uint find_bin(inout uvec2 above, float wanted) {
  if (gl_LocalInvocationID.x == 0) {
    uvec2 sum = above;
    int g = int(BINS / GROUP) - 1;
    for (; g >= 0; --g) {
      const uvec2 next = sum + uvec2(group_high[g], group_low[g]);
      if (total(next) >= wanted) break;
      sum = next;
    }
    found_bin = BINS;
    for (int i = g * int(GROUP) + int(GROUP) - 1; g >= 0 && i >= g * int(GROUP); --i) {
      const uvec2 next = sum + uvec2(high_sums[i], low_sums[i]);
      if (total(next) >= wanted) {
        found_bin = uint(i);
        break;
      }
      sum = next;
    }
    sum_above = sum;
  }
  barrier();
  above = sum_above;
  return found_bin;
}

// The highest key, floor_key or above, that still `wanted` reaches: so many scores, or such a part of the weight of those that reach
// floor_key.
uint highest(Source source, uint floor_key, float wanted, bool weighted, float peak) {
  uint key = 0;
  uvec2 above = uvec2(0);
  for (int shift = 24; shift >= 0; shift -= 8) {
    fill_bins(source, floor_key, key, uint(shift), weighted, peak);
    if (shift == 24 && weighted) wanted *= total(all_bins());
    const uint bin = find_bin(above, wanted);
    if (bin == BINS) return floor_key;
    key = key << 8 | bin;
  }
  return max(key, floor_key);
}

// Keeps the scores that reach the key, if they fit.
Source keep(Source source, uint key) {
  if (gl_LocalInvocationID.x == 0) kept_count = 0;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = scores[i];
    if (!is_finite(score) || key_of(score) < key) continue;
    const uint place = atomicAdd(kept_count, 1);
    if (place < KEPT) kept[place] = score;
  }
  barrier();
  if (kept_count > KEPT) return source;
  return Source(kept_count, true);
}

void main() {
  Source source = Source(LISTED != 0 ? state.head.exact_count : p.rows, false);
  float peak = -3.4e38;
  for (uint id = gl_LocalInvocationID.x; id < source.count; id += THREADS)
    if (is_finite(scores[id])) peak = max(peak, scores[id]);
  peak = workgroup_max(peak);

  uint key = 0;
  if (params.top_k > 0 && params.top_k < source.count) {
    key = highest(source, key, float(params.top_k), false, peak);
    if (params.top_p < 1 && params.top_k <= KEPT) source = keep(source, key);
  }
  if (params.top_p < 1) key = highest(source, key, params.top_p, true, peak);
  if (gl_LocalInvocationID.x == 0)
    state.threshold = max(key == 0 ? -3.4e38 : value_of(key), peak + params.log_min_p);
}
