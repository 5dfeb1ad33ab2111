// Negative log-likelihood of the token that follows: ln(sum(exp(logits))) - logit of the target. One workgroup a row of logits.
// Variants: subgroup
// Optional: allowed_rows
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/soft_cap.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer History { uint history[]; };
layout(std430, binding = 2) readonly buffer Logits { float logits[]; };  // (block tokens, stride)
layout(std430, binding = 3) writeonly buffer Output { float nll[]; };    // (context): of the token at position + 1
layout(std430, binding = 4) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(constant_id = 1) const uint MASKED = 0;
layout(constant_id = 2) const uint SOFT_CAP = 0;  // 1: logits are capped
layout(push_constant) uniform Push { NllPush p; };

float logit_at(uint i) { return SOFT_CAP != 0 ? soft_capped(logits[i], p.soft_cap) : logits[i]; }
bool may_be_chosen(uint id) { return MASKED == 0 || (allowed_rows[p.rows + id / 32] >> (id % 32) & 1) != 0; }

void main() {
  const uint position = state.pos + p.first + gl_WorkGroupID.x, row = gl_WorkGroupID.x * p.stride;
  if (position + 1 >= state.end) return;
  float peak = -3.4e38;
  for (uint i = gl_LocalInvocationID.x; i < p.rows; i += THREADS) if (may_be_chosen(i)) peak = max(peak, logit_at(row + i));
  peak = workgroup_max(peak);
  float sum = 0;
  for (uint i = gl_LocalInvocationID.x; i < p.rows; i += THREADS) if (may_be_chosen(i)) sum += exp(logit_at(row + i) - peak);
  sum = workgroup_sum(sum);
  const uint target = history[position + 1];
  if (gl_LocalInvocationID.x == 0)
    nll[position] = may_be_chosen(target) ? log(sum) + peak - logit_at(row + target) : uintBitsToFloat(0x7f800000u);
}
