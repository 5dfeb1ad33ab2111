// Keeps a layer's last inputs of linear attention (abi.h, kept): those of the pass's last kept_capacity tokens.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint MEMBER_TOKENS = 0;  // of each session of a batch
#include "lib/members.glsl"
layout(local_size_x = 64) in;

layout(std430, binding = 1) readonly buffer Projected { float projected[]; };  // (pass tokens, in_stride)
layout(std430, binding = 2) readonly buffer Prepared { float prepared[]; };    // (pass tokens, prepared_stride)
layout(std430, binding = 3) writeonly buffer Kept { float kept[]; };           // of each session (kept_capacity, kept_stride)
layout(push_constant) uniform Push { KeepRowsPush p; };

// Grid: x the columns, y the last tokens of each session.
void main() {
  const uint most = min(p.tokens, p.kept_capacity), col = gl_GlobalInvocationID.x;
  const Owner owner = owner_of(gl_WorkGroupID.y / most * MEMBER_TOKENS);
  if (owner.position >= owner.context || col >= p.in_cols + p.prepared_cols) return;
  const uint count = min(p.tokens, max(owner.end, owner.position + 1) - owner.position), back = gl_WorkGroupID.y % most;
  if (back >= count) return;
  const uint t = count - 1 - back, row = owner.row + t;
  const uint to = (owner.slot * p.kept_capacity + (owner.position + t) % p.kept_capacity) * p.kept_stride + col;
  kept[to] = col < p.in_cols ? projected[row * p.in_stride + p.in_at + col] : prepared[row * p.prepared_stride + col - p.in_cols];
}
