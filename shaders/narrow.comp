// How far below the peak the scores lie that top-k and top-p can let through: each workgroup counts or weighs its scores by bins, and the one
// that finishes last finds the bin that the filter's limit is in. filter.comp then looks at those scores alone.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/finite.glsl"
#include "lib/narrowed.glsl"

layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = 1) const uint LISTED = 0;
layout(local_size_x_id = 0) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(std430, binding = 3) coherent buffer Scratch { Narrowed narrowed; };
layout(push_constant) uniform Push { SamplePush p; };

const uint GROUP = 16;  // bins
shared uint counts[FILTER_BINS], highs[FILTER_BINS], lows[FILTER_BINS];
shared uint group_counts[FILTER_BINS / GROUP];
shared uvec2 group_weights[FILTER_BINS / GROUP];
shared uint arrived;

// Adds the workgroup's scores to the shared bins.
void fill(uint count, bool by_count, float peak) {
  for (uint i = gl_LocalInvocationID.x; i < FILTER_BINS; i += THREADS) counts[i] = highs[i] = lows[i] = 0;
  barrier();
  const uint first = gl_WorkGroupID.x * FILTER_ROWS, end = min(count, first + FILTER_ROWS);
  for (uint i = first + gl_LocalInvocationID.x; i < end; i += THREADS) {
    const float score = scores[i];
    if (!is_finite(score)) continue;
    const uint bin = bin_of(score, peak);
    if (by_count) {
      atomicAdd(counts[bin], 1);
      continue;
    }
    const uint weight = units_of(exp(score - peak));
    if (weight >> 13 != 0) atomicAdd(highs[bin], weight >> 13);
    atomicAdd(lows[bin], weight & 0x1fffu);
  }
  barrier();
}

// The bin with which the sum from the peak on reaches what the filter wants; the last one if none does. By one lane.
void find_last_bin(bool by_count) {
  uvec2 all_ = uvec2(0);
  for (uint g = 0; g < FILTER_BINS / GROUP; ++g) all_ += group_weights[g];
  const float wanted = by_count ? 0 : max(params.top_p * total(all_), 1);
  uint count = 0, bin = 0;
  uvec2 weight = uvec2(0);
  for (uint g = 0; g < FILTER_BINS / GROUP; ++g) {  // whole groups that do not reach it
    const bool reached = by_count ? count + group_counts[g] >= params.top_k : total(weight + group_weights[g]) >= wanted;
    if (reached) break;
    count += group_counts[g];
    weight += group_weights[g];
    bin += GROUP;
  }
  for (; bin < FILTER_BINS; ++bin) {
    count += counts[bin];
    weight += uvec2(highs[bin], lows[bin]);
    if (by_count ? count >= params.top_k : total(weight) >= wanted) break;
  }
  narrowed.last_bin = min(bin, FILTER_BINS - 1);
  narrowed.high = all_.x;
  narrowed.low = all_.y;
}

// Grid: FILTER_ROWS scores a workgroup.
void main() {
  const uint lane = gl_LocalInvocationID.x, count = LISTED != 0 ? state.head.exact_count : p.rows;
  const bool by_count = has_top_k(params, count);
  const uint groups = max((count + FILTER_ROWS - 1) / FILTER_ROWS, 1);
  if ((!by_count && params.top_p >= 1) || gl_WorkGroupID.x >= groups) return;
  fill(count, by_count, narrowed.peak == 0 ? -3.4e38 : value_of(narrowed.peak));
  for (uint i = lane; i < FILTER_BINS; i += THREADS) {
    if (counts[i] != 0) atomicAdd(narrowed.counts[i], counts[i]);
    if (highs[i] != 0) atomicAdd(narrowed.highs[i], highs[i]);
    if (lows[i] != 0) atomicAdd(narrowed.lows[i], lows[i]);
  }
  memoryBarrierBuffer();
  barrier();
  if (lane == 0) arrived = atomicAdd(narrowed.binned, 1);
  barrier();
  if (arrived + 1 != groups) return;
  memoryBarrierBuffer();
  for (uint i = lane; i < FILTER_BINS; i += THREADS) {
    counts[i] = narrowed.counts[i];
    highs[i] = narrowed.highs[i];
    lows[i] = narrowed.lows[i];
  }
  barrier();
  for (uint g = lane; g < FILTER_BINS / GROUP; g += THREADS) {
    uint sum = 0;
    uvec2 weight = uvec2(0);
    for (uint i = g * GROUP; i < (g + 1) * GROUP; ++i) {
      sum += counts[i];
      weight += uvec2(highs[i], lows[i]);
    }
    group_counts[g] = sum;
    group_weights[g] = weight;
  }
  barrier();
  if (lane == 0) find_last_bin(by_count);
}
