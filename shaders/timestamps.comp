// Whisper's rule for times (Radford et al. 2022): if the timestamps, the rows from `first` on, are together likelier than the likeliest
// other row, the token is a timestamp. Then the other rows' logits become -infinity. One workgroup.
// Variants: subgroup
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"

layout(constant_id = 1) const uint LISTED = 0;
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) buffer Logits { float logits[]; };  // (rows)
layout(std430, binding = 2) readonly buffer Lists { uint lists[]; };
layout(push_constant) uniform Push { TimestampsPush p; };

bool is_timestamp(uint place) { return (LISTED != 0 ? lists[LIST_IDS(p.rows) + place] : place) >= p.first; }

void main() {
  const uint lane = gl_LocalInvocationID.x, count = LISTED != 0 ? state.head.exact_count : p.rows;
  float peak = -3.4e38, other = -3.4e38;
  for (uint i = lane; i < count; i += THREADS) {
    if (!is_finite(logits[i])) continue;
    if (is_timestamp(i))
      peak = max(peak, logits[i]);
    else
      other = max(other, logits[i]);
  }
  peak = workgroup_max(peak);
  other = workgroup_max(other);
  float sum = 0;
  for (uint i = lane; i < count; i += THREADS)
    if (is_finite(logits[i]) && is_timestamp(i)) sum += exp(logits[i] - peak);
  sum = workgroup_sum(sum);
  if (sum == 0 || peak + log(sum) <= other) return;
  for (uint i = lane; i < count; i += THREADS)
    if (!is_timestamp(i)) logits[i] = uintBitsToFloat(0xff800000u);
}
