// The first rows to compute: of each of leader_count strips of positions the one with the greatest estimate.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/best_lane.glsl"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 2) writeonly buffer Lists { uint lists[]; };
// The estimates, four at a time.
#ifdef WEFT_TEXEL
layout(binding = 3) uniform usamplerBuffer estimates;
vec4 estimates_at(uint i) { return uintBitsToFloat(texelFetch(estimates, int(i))); }
#else
layout(std430, binding = 3) readonly buffer Estimates { vec4 estimates[]; };
vec4 estimates_at(uint i) { return estimates[i]; }
#endif
layout(constant_id = 0) const uint LISTED = 0;
layout(push_constant) uniform Push { LeadersPush p; };

// Grid: a strip a workgroup. Strips interleave by four positions, so that neighbours in the vocabulary are in different ones.
void main() {
  const uint strips = state.head.leader_count, positions = state.head.positions, strip = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (strip >= strips) return;
  Candidate best = NO_CANDIDATE;
  for (uint i = (strip + lane * strips) * 4; i < positions; i += 64 * strips * 4) {
    const vec4 four = estimates_at(LIST_ESTIMATES(p.rows) / 4 + i / 4);
    for (uint k = 0; k < 4; ++k)
      if (four[k] > best.score && i + k < positions) best = Candidate(four[k], i + k);
  }
  best = best_lane(best, lane);
  if (lane > 0) return;
  lists[LIST_LEADERS(p.rows) + strip] = LISTED != 0 && best.id != NO_ROW ? allowed_rows[best.id] : best.id;
  lists[LIST_LEADER_POSITIONS(p.rows) + strip] = best.id;
}
