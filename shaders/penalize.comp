// Scores from logits, of all rows or of the listed ones, and the highest finite one, for filter.
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"

layout(constant_id = 0) const uint LISTED = 0;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Params { SampleParams params; };
layout(std430, binding = 1) readonly buffer TokenFlags { uint token_flags[]; };     // TOKEN_FLAGS
layout(std430, binding = 2) readonly buffer Logits { float logits[]; };  // (positions)
layout(std430, binding = 3) writeonly buffer Scores { float scores[]; };  // (positions)
layout(std430, binding = 4) readonly buffer State { StepState state; };
layout(std430, binding = 5) readonly buffer Lists { uint lists[]; };
layout(std430, binding = 6) buffer Scratch { Narrowed narrowed; };
layout(push_constant) uniform Push { PenalizePush p; };
#include "lib/finite.glsl"
#include "lib/narrowed.glsl"
#include "lib/score.glsl"

shared uint peak;

void main() {
  const uint count = LISTED != 0 ? state.head.exact_count : p.rows;
  if (gl_LocalInvocationID.x == 0) peak = 0;
  barrier();
  uint highest = 0;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 64) {
    const uint id = LISTED != 0 ? lists[LIST_IDS(p.rows) + i] : i;
    const float score = score_of(logits[i], id, p.rows);
    scores[i] = score;
    if (is_finite(score)) highest = max(highest, key_of(score));
  }
  atomicMax(peak, highest);
  barrier();
  if (gl_LocalInvocationID.x == 0 && peak != 0) atomicMax(narrowed.peak, peak);
}
