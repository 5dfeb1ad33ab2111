// Lists the rows whose bounds reach the cut: for refining, or, where there is nothing to refine by, for computing. With HEAD_ALL, all that may
// be chosen: also if `again` finds that top-p was not decided by the rows listed first.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer TokenFlags { uint token_flags[]; };
layout(std430, binding = 3) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
// The bounds once more, four at a time.
#ifdef WEFT_TEXEL
layout(binding = 5) uniform usamplerBuffer bounds;
vec4 bounds_at(uint i) { return uintBitsToFloat(texelFetch(bounds, int(i))); }
#else
layout(std430, binding = 5) readonly buffer Bounds { vec4 bounds[]; };
vec4 bounds_at(uint i) { return bounds[i]; }
#endif
layout(constant_id = 0) const uint LISTED = 0;
layout(push_constant) uniform Push { SelectPush p; };
#include "lib/gumbel.glsl"
#include "lib/lists.glsl"
#include "lib/score.glsl"

const float SLACK = 1.0 / 1048576;  // more than the few roundings it stands for

// The least logit whose score plus noise reaches the cut, or a little less.
float logit_for(float cut, float noise, bool seen_before, float added) {
  if (cut < -3.3e38) return -3.4e38;
  float logit = cut - noise - (abs(cut) + abs(noise)) * SLACK;
  if (params.inverse_temperature > 0) logit /= params.inverse_temperature;
  if (added != 0) logit -= added + (abs(logit) + abs(added)) * SLACK;
  if (seen_before) logit = logit > 0 ? logit * params.repeat_penalty : logit / params.repeat_penalty;
  if (params.soft_cap > 0) logit = before_soft_cap(logit, params.soft_cap);
  return logit - abs(logit) * SLACK - 1e-30;
}

bool allowed(uint id) { return p.masked == 0 || (allowed_rows[p.rows + id / 32] >> (id % 32) & 1) != 0; }

// The least logit with which a row reaches the cut, or the floor if top-p asks for mass.
float needed_by(uint id, float cut) {
  const bool seen = was_seen(id);
  const float added = added_to(id, p.rows), needed = logit_for(cut, params.cut_noise != 0 ? noise_of(id, state.end) : 0, seen, added);
  return params.cut_mass != 0 ? min(needed, logit_for(state.head.floor, 0, seen, added)) : needed;
}

// True if every row may be chosen and all rows need the same logit.
bool same_for_all() {
  return p.masked == 0 && params.cut_noise == 0 && params.cut_mass == 0 && params.repeat_penalty == 1 && params.biased == 0 && params.presence_penalty == 0 &&
         params.frequency_penalty == 0;
}

// A lane's bit-th position: 32 a lane, four of them side by side.
uint position_of(uint bit) { return gl_WorkGroupID.x * SELECT_ROWS + bit / 4 * 256 + gl_LocalInvocationID.x * 4 + bit % 4; }

// Grid: SELECT_ROWS positions a workgroup.
void main() {
  if (p.again != 0 && state.head.every == 0) return;
  const uint mode = p.again != 0 ? HEAD_ALL : state.head.mode, positions = state.head.positions;
  const bool refines = mode < p.stages;
  const float cut = state.head.cut;
  // Most rows are out by this alone; what noise adds is known for each token only.
  float least = min(logit_for(cut, 0, false, params.most_added), logit_for(cut, 0, true, params.most_added));
  if (params.cut_noise != 0 || mode == HEAD_ALL || params.most_added > 3e38) least = -3.4e38;
  // A software driver computes what a branch leaves out too, but only as many turns of a loop as a lane needs: what is costly is in loops.
  uint reaching = 0;  // bit i: the lane's i-th position
  for (uint quad = 0; quad < SELECT_ROWS / 64; quad += 4) {
    if (position_of(quad) >= positions) break;
    const vec4 bound = mode == HEAD_ALL ? vec4(0) : bounds_at(LIST_BOUNDS(p.rows) / 4 + position_of(quad) / 4);
    [[unroll]] for (uint i = 0; i < 4; ++i)
      if (position_of(quad + i) < positions && bound[i] >= least) reaching |= 1u << (quad + i);
  }
  uint wanted = 0;
  const bool same = same_for_all() && mode != HEAD_ALL;
  if (same) {
    wanted = reaching;
    reaching = 0;
  }
  for (; reaching != 0; reaching &= reaching - 1) {
    const uint position = position_of(findLSB(reaching)), id = LISTED != 0 ? allowed_rows[position] : position;
    const float needed = needed_by(id, cut);
    lists[LIST_NEEDED(p.rows) + position] = floatBitsToUint(needed);
    if (allowed(id) && (mode == HEAD_ALL || uintBitsToFloat(lists[LIST_BOUNDS(p.rows) + position]) >= needed)) wanted |= reaching & -reaching;
  }
  uint place;
  if (refines) {
    APPEND(bitCount(wanted), state.head.refine_counts[mode], place)
    GROUPS_FOR(state.head.refine[mode].x, p.rows_per_group)
  } else {
    APPEND(bitCount(wanted), state.head.exact_count, place)
    GROUPS_FOR(state.head.exact.x, p.rows_per_group)
  }
  while (wanted != 0) {
    const uint position = position_of(findLSB(wanted));
    wanted &= wanted - 1;
    const uint id = LISTED != 0 ? allowed_rows[position] : position;
    if (same) lists[LIST_NEEDED(p.rows) + position] = floatBitsToUint(least);
    lists[(refines ? LIST_REFINE(p.rows, mode) : LIST_IDS(p.rows)) + place++] = refines ? position : id;
  }
}
