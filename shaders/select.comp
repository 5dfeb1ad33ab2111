// Lists the rows whose bounds reach the cut: for refining, or, where there is nothing to refine by, for computing. With HEAD_ALL, all that may
// be chosen.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Seen { uint seen[]; };
layout(std430, binding = 3) readonly buffer Choice { uint choice[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
layout(constant_id = 0) const uint LISTED = 0;
layout(push_constant) uniform Push { SelectPush p; };
#include "lib/gumbel.glsl"
#include "lib/lists.glsl"

const float SLACK = 1.0 / 1048576;  // more than the few roundings it stands for

// The least logit whose score plus noise reaches the cut, or a little less.
float logit_for(float cut, float noise, bool seen_before) {
  if (cut < -3.3e38) return -3.4e38;
  float logit = cut - noise - (abs(cut) + abs(noise)) * SLACK;
  if (params.inverse_temperature > 0) logit /= params.inverse_temperature;
  if (seen_before) logit = logit > 0 ? logit * params.repeat_penalty : logit / params.repeat_penalty;
  return logit - abs(logit) * SLACK - 1e-30;
}

// Grid: 256 positions a workgroup, a strip of 64 after the other.
void main() {
  const uint mode = state.head.mode;
  const bool refines = mode == HEAD_SWEEP && p.refines != 0 && params.fast_rows == 0;
  for (uint strip = 0; strip < 4; ++strip) {
    const uint position = (gl_WorkGroupID.x * 4 + strip) * 64 + gl_LocalInvocationID.x;
    const bool inside = position < state.head.positions;
    uint id = position;
    if (LISTED != 0 && inside) id = choice[position];
    bool wanted = inside;
    if (inside && p.masked != 0) wanted = (choice[p.rows + id / 32] >> (id % 32) & 1) != 0;
    if (wanted && mode != HEAD_ALL) {
      const float bound = uintBitsToFloat(lists[LIST_BOUNDS(p.rows) + position]);
      const float noise = params.cut_noise != 0 ? noise_of(id, state.end) : 0;
      const float needed = logit_for(state.head.cut, noise, (seen[id / 32] >> (id % 32) & 1) != 0);
      wanted = bound >= needed;
      if (wanted && params.fast_rows > 0 && bound < state.head.best_cut) {
        wanted = false;
        state.head.uncertain = 1;
      }
      // What refining compares must not need to know the token.
      if (refines) lists[LIST_BOUNDS(p.rows) + position] = floatBitsToUint(bound - needed + abs(bound) * SLACK);
    }
    uint place;
    if (refines) {
      APPEND(wanted, state.head.refine_count, place)
      if (wanted) lists[LIST_REFINE(p.rows) + place] = position;
      GROUPS_FOR(state.head.refine.x, p.rows_per_group)
    } else {
      APPEND(wanted, state.head.exact_count, place)
      if (wanted) lists[LIST_IDS(p.rows) + place] = id;
      GROUPS_FOR(state.head.exact.x, p.rows_per_group)
    }
  }
}
