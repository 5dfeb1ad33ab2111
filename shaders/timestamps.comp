// Whisper's rule for times (Radford et al. 2022): if the timestamps, the rows from `first` on, are together likelier than the likeliest
// other row, the token is a timestamp. Then the other rows' logits become -infinity. Each workgroup looks at PART_ROWS rows; the one that finishes
// last decides.
// Variants: subgroup
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"

layout(constant_id = 1) const uint LISTED = 0;
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) buffer Logits { float logits[]; };  // (rows)
layout(std430, binding = 2) readonly buffer Lists { uint lists[]; };
layout(std430, binding = 3) coherent buffer Scratch {
  Narrowed narrowed;
  float parts[];  // of each workgroup: the timestamps' peak and sum, and the likeliest other row's logit
};
layout(push_constant) uniform Push { TimestampsPush p; };

shared uint arrived;

bool is_timestamp(uint place) { return (LISTED != 0 ? lists[LIST_IDS(p.rows) + place] : place) >= p.first; }

// Leaves what the workgroup's rows [first, end) have.
void look(uint first, uint end) {
  const uint lane = gl_LocalInvocationID.x;
  float peak = -3.4e38, other = -3.4e38, sum = 0;
  for (uint i = first + lane; i < end; i += THREADS) {
    if (!is_finite(logits[i])) continue;
    if (is_timestamp(i))
      peak = max(peak, logits[i]);
    else
      other = max(other, logits[i]);
  }
  peak = workgroup_max(peak);
  other = workgroup_max(other);
  for (uint i = first + lane; i < end; i += THREADS)
    if (is_finite(logits[i]) && is_timestamp(i)) sum += exp(logits[i] - peak);
  sum = workgroup_sum(sum);
  if (lane > 0) return;
  parts[3 * gl_WorkGroupID.x] = peak;
  parts[3 * gl_WorkGroupID.x + 1] = sum;
  parts[3 * gl_WorkGroupID.x + 2] = other;
}

// True if the timestamps of all workgroups are together likelier than the likeliest other row.
bool is_time(uint groups) {
  const uint lane = gl_LocalInvocationID.x;
  float peak = -3.4e38, other = -3.4e38, sum = 0;
  for (uint g = lane; g < groups; g += THREADS) {
    peak = max(peak, parts[3 * g]);
    other = max(other, parts[3 * g + 2]);
  }
  peak = workgroup_max(peak);
  other = workgroup_max(other);
  for (uint g = lane; g < groups; g += THREADS) sum += parts[3 * g + 1] * exp(parts[3 * g] - peak);
  sum = workgroup_sum(sum);
  return sum > 0 && peak + log(sum) > other;
}

// Grid: PART_ROWS rows a workgroup.
void main() {
  const uint lane = gl_LocalInvocationID.x, count = LISTED != 0 ? state.head.exact_count : p.rows;
  const uint groups = max((count + PART_ROWS - 1) / PART_ROWS, 1), first = gl_WorkGroupID.x * PART_ROWS;
  if (gl_WorkGroupID.x >= groups) return;
  look(first, min(count, first + PART_ROWS));
  memoryBarrierBuffer();
  barrier();  // the rows are read
  if (lane == 0) arrived = atomicAdd(narrowed.done, 1);
  barrier();
  if (arrived + 1 != groups) return;
  memoryBarrierBuffer();
  if (lane == 0) narrowed.done = 0;
  if (!is_time(groups)) return;
  for (uint i = lane; i < count; i += THREADS)
    if (!is_timestamp(i)) logits[i] = uintBitsToFloat(0xff800000u);
}
