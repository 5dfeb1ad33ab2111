// The lowest score that top-k, top-p and min-p let through, in that order, and the lowest and highest of those that typical-p does. Each
// workgroup lists its scores that lie in the bins which narrow.comp has found to be enough; the one that finishes last filters the list. It finds
// a score's bits eight at a time, from histograms of what the scores that share the bits above count or weigh. So the answer is exact, ties
// included, without sorting the vocabulary. A list that is not long fits in shared memory.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"
#include "lib/narrowed.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(std430, binding = 3) coherent buffer Scratch {
  Narrowed narrowed;
  float list[];
};
layout(constant_id = 1) const uint LISTED = 0;
layout(push_constant) uniform Push { SamplePush p; };
#include "lib/lists.glsl"

const uint BINS = 256, GROUP = 16;
const uint KEPT = 512;  // scores

// A bin's count, or its weight, as a sum of units. Integers, so that it does not depend on which lane has which score: a list of rows gives what
// the whole vocabulary gives.
shared uint high_sums[BINS], low_sums[BINS];
shared uint group_high[BINS / GROUP], group_low[BINS / GROUP];
shared uint found_bin;
shared uvec2 sum_above;  // of the bins above the one found
shared float kept[KEPT];
shared uint kept_count;

// The scores to look at: those of the list, or the kept ones; ranked by how high they are, or by how near to the center.
struct Source {
  uint count;
  bool kept_only;
  bool by_nearness;
  float center;
};
float score_at(Source source, uint i) { return source.kept_only ? kept[i] : list[i]; }
uint rank_of(Source source, float score) {
  return source.by_nearness ? 0x7fffffffu - floatBitsToUint(abs(score - source.center)) : key_of(score);
}

// Fills the bins with the scores that reach `floor_key` and whose rank's bits above shift + 8 are the prefix's.
void fill_bins(Source source, uint floor_key, uint prefix, uint shift, bool weighted, float peak) {
  barrier();  // the bins' last readers are done
  for (uint i = gl_LocalInvocationID.x; i < BINS; i += THREADS) high_sums[i] = low_sums[i] = 0;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = score_at(source, i);
    const uint rank = rank_of(source, score);
    if (!is_finite(score) || key_of(score) < floor_key || (shift < 24 && rank >> (shift + 8) != prefix)) continue;
    const uint weight = weighted ? units_of(exp(score - peak)) : 1u, bin = rank >> shift & (BINS - 1);
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

// The highest rank that still `wanted` reaches: so many scores, or such a part of a weight: that of the scores that reach floor_key, or if it is
// not zero `whole`. 0 if none does.
uint highest(Source source, uint floor_key, float wanted, bool weighted, float peak, uvec2 whole) {
  uint rank = 0;
  uvec2 above = uvec2(0);
  for (int shift = 24; shift >= 0; shift -= 8) {
    fill_bins(source, floor_key, rank, uint(shift), weighted, peak);
    if (shift == 24 && weighted) wanted = max(wanted * total(whole == uvec2(0) ? all_bins() : whole), 1);
    const uint bin = find_bin(above, wanted);
    if (bin == BINS) return 0;
    rank = rank << 8 | bin;
  }
  return rank;
}

// Keeps those of the list's scores that reach the key, if they fit.
Source keep(Source source, uint key) {
  if (gl_LocalInvocationID.x == 0) kept_count = 0;
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = list[i];
    if (key_of(score) < key) continue;
    const uint place = atomicAdd(kept_count, 1);
    if (place < KEPT) kept[place] = score;
  }
  barrier();
  if (kept_count > KEPT) return source;
  return Source(kept_count, true, false, 0);
}

// The mean of the scores that reach the key, by their softmax.
float expected_score(Source source, uint floor_key, float peak) {
  uvec2 weight = uvec2(0), below = uvec2(0);
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = score_at(source, i);
    if (!is_finite(score) || key_of(score) < floor_key) continue;
    const uint share = units_of(exp(score - peak)), lack = units_of(exp(score - peak) * (peak - score));  // at most 1/e
    weight += uvec2(share >> 13, share & 0x1fffu);
    below += uvec2(lack >> 13, lack & 0x1fffu);
  }
  barrier();  // the bins' last readers are done
  if (gl_LocalInvocationID.x < 2) high_sums[gl_LocalInvocationID.x] = low_sums[gl_LocalInvocationID.x] = 0;
  barrier();
  atomicAdd(high_sums[0], weight.x);
  atomicAdd(low_sums[0], weight.y);
  atomicAdd(high_sums[1], below.x);
  atomicAdd(low_sums[1], below.y);
  barrier();
  return peak - total(uvec2(high_sums[1], low_sums[1])) / max(total(uvec2(high_sums[0], low_sums[0])), 1);
}

// Locally typical sampling (Meister, Pimentel, Wiher and Cotterell 2022, arXiv:2202.00666): the fewest of the scores that reach the key
// whose surprise is nearest to the entropy and that hold typical_p of their softmax. With s the scores and p their softmax,
// |-ln p_i - H| = |s_i - sum p s|: so those that are nearest to the expected score. The lowest and the highest of them.
vec2 typical(Source source, uint floor_key, float peak) {
  source.center = expected_score(source, floor_key, peak);
  source.by_nearness = true;
  const uint rank = highest(source, floor_key, params.typical_p, true, peak, uvec2(0));
  float least = 3.4e38, most = -3.4e38;
  for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) {
    const float score = score_at(source, i);
    if (!is_finite(score) || key_of(score) < floor_key || rank_of(source, score) < rank) continue;
    least = min(least, score);
    most = max(most, score);
  }
  return vec2(-workgroup_max(-least), workgroup_max(most));
}

// The limits, from a list of all scores that may lie within them. count: of all scores.
vec2 limits(Source source, uint count, float peak) {
  const bool by_count = has_top_k(params, count);
  source = keep(source, 0);
  uint key = 0;
  if (by_count) {
    key = highest(source, key, float(params.top_k), false, peak, uvec2(0));
    if (!source.kept_only && min(params.top_p, params.typical_p) < 1 && params.top_k <= KEPT) source = keep(source, key);
  }
  if (params.top_p < 1) {
    const uint nucleus = highest(source, key, params.top_p, true, peak, by_count ? uvec2(0) : uvec2(narrowed.high, narrowed.low));
    float lowest = 3.4e38;
    for (uint i = gl_LocalInvocationID.x; i < source.count; i += THREADS) lowest = min(lowest, score_at(source, i));
    lowest = -workgroup_max(-lowest);
    // The list holds the nucleus. exp() of two shaders may differ in the last bit, and the list's weight then miss what is wanted by a unit.
    key = max(key, nucleus == 0 && source.count > 0 ? key_of(lowest) : nucleus);
  }
  const float lowest = max(key == 0 ? -3.4e38 : value_of(key), peak + params.log_min_p);
  if (params.typical_p < 1) return typical(source, key_of(lowest), peak);
  return vec2(lowest, uintBitsToFloat(0x7f7fffffu));
}

// Appends the workgroup's scores of bins up to last_bin to the list.
void collect(uint count, uint last_bin, float peak) {
  const uint first = gl_WorkGroupID.x * FILTER_ROWS, end = min(count, first + FILTER_ROWS);
  uint wanted = 0;  // bit i: the lane's i-th score
  for (uint i = first + gl_LocalInvocationID.x, bit = 0; i < end; i += THREADS, ++bit)
    if (is_finite(scores[i]) && bin_of(scores[i], peak) <= last_bin) wanted |= 1u << bit;
  uint place;
  APPEND(bitCount(wanted), narrowed.listed, place)
  for (; wanted != 0; wanted &= wanted - 1) list[place++] = scores[first + gl_LocalInvocationID.x + findLSB(wanted) * THREADS];
}

shared uint arrived;

// Grid: FILTER_ROWS scores a workgroup.
void main() {
  const uint lane = gl_LocalInvocationID.x, count = LISTED != 0 ? state.head.exact_count : p.rows;
  const uint groups = max((count + FILTER_ROWS - 1) / FILTER_ROWS, 1);
  if (gl_WorkGroupID.x >= groups) return;
  const float peak = narrowed.peak == 0 ? -3.4e38 : value_of(narrowed.peak);
  const bool narrows = has_top_k(params, count) || params.top_p < 1;
  if (narrows || params.typical_p < 1) collect(count, narrows ? narrowed.last_bin : bin_of(peak + params.log_min_p, peak), peak);
  memoryBarrierBuffer();
  barrier();
  if (lane == 0) arrived = atomicAdd(narrowed.done, 1);
  barrier();
  if (arrived + 1 != groups) return;
  memoryBarrierBuffer();
  const vec2 range = limits(Source(narrowed.listed, false, false, 0), count, peak);
  barrier();  // the scratch is read
  for (uint i = lane; i < FILTER_BINS; i += THREADS) narrowed.counts[i] = narrowed.highs[i] = narrowed.lows[i] = 0;
  if (lane > 0) return;
  narrowed.peak = narrowed.binned = narrowed.done = narrowed.last_bin = narrowed.high = narrowed.low = narrowed.listed = 0;
  state.threshold = range.x;
  state.ceiling = range.y;
}
