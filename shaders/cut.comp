// Finds the score that a row must be able to reach, the cut, from the leaders' logits, which are exact. Lists the leaders that reach it.
// One workgroup, one or two leaders a lane. If top-p asks for mass and noise decides the rest, a row may reach either limit: the cut with its
// noise, or the floor without it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/finite.glsl"

layout(local_size_x = 128) in;

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer TokenFlags { uint token_flags[]; };
layout(std430, binding = 3) buffer Lists { uint lists[]; };
layout(push_constant) uniform Push { CutPush p; };
#include "lib/gumbel.glsl"
#include "lib/score.glsl"

shared float scores[MAX_LEADERS];
shared float plain[MAX_LEADERS];  // the scores without noise
shared uint reached;              // the key of the best score whose rank is wanted
shared uint reached_plain;        // of the best one without noise
shared uint listed;

// Floats in the order of unsigned integers.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

// The rank-th best of `count` scores; -3.4e38 if there are fewer.
float best_of(uint rank, uint count) {
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < count; i += 128) {
    uint at_least = 0;
    for (uint j = 0; j < count; ++j) at_least += scores[j] >= scores[i] ? 1 : 0;
    if (at_least >= rank) atomicMax(reached, key_of(scores[i]));
  }
  barrier();
  return value_of(reached);
}

// The margin below a score, or a little more.
float limit(float best, float margin) { return best > -3.3e38 ? best - margin - (abs(best) + margin) * (1.0 / 1048576) : -3.4e38; }

void main() {
  const uint lane = gl_LocalInvocationID.x, count = state.head.leader_count;
  if (count == 0) return;
  if (lane == 0) {
    reached = reached_plain = key_of(-3.4e38);
    listed = 0;
  }
  barrier();
  for (uint i = lane; i < count; i += 128) {
    const uint id = lists[LIST_LEADERS(p.rows) + i];
    float score = -3.4e38;
    if (id != NO_ROW) score = score_of(uintBitsToFloat(lists[LIST_LEADER_LOGITS(p.rows) + i]), id, p.rows);
    plain[i] = is_finite(score) ? score : -3.4e38;
    scores[i] = is_finite(score) && params.cut_noise != 0 ? score + noise_of(id, state.end) : plain[i];
    atomicMax(reached_plain, key_of(plain[i]));
  }
  const bool both = params.cut_mass != 0 && params.cut_noise != 0;
  const float cut = limit(best_of(params.cut_rank, count), both ? 0 : params.cut_margin);
  const float floor_ = both ? limit(value_of(reached_plain), params.cut_margin) : cut;
  for (uint i = lane; i < count; i += 128) {
    const uint id = lists[LIST_LEADERS(p.rows) + i];
    if (id == NO_ROW || (scores[i] < cut && !(both && plain[i] >= floor_))) continue;
    lists[LIST_IDS(p.rows) + atomicAdd(listed, 1)] = id;
    lists[LIST_BOUNDS(p.rows) + lists[LIST_LEADER_POSITIONS(p.rows) + i]] = floatBitsToUint(BOUND_OF_LISTED);
  }
  barrier();
  if (lane > 0) return;
  state.head.cut = cut;
  state.head.floor = floor_;
  state.head.exact_count = listed;
  state.head.exact.x = (listed + p.rows_per_group - 1) / p.rows_per_group;
}
