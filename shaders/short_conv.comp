// A gated short convolution (LFM2): y = C * conv(B * x), each column by itself. A lane goes through CONV_TOKENS tokens of a column. The
// lanes of a session's first tokens alone read and write the kept products B * x, so that none is overwritten before it was read.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(constant_id = 0) const uint MEMBER_TOKENS = 0;  // of each session of a batch
layout(constant_id = 1) const uint TAPS = 3;
layout(constant_id = 2) const uint BIASED = 0;
#include "lib/members.glsl"
layout(local_size_x = 64) in;

layout(std430, binding = 1) readonly buffer Gates { float gates[]; };    // (pass tokens, in_stride): B, C, x
layout(std430, binding = 2) readonly buffer Kernel { float kernel[]; };  // (cols, TAPS), then the biases (cols)
layout(std430, binding = 3) buffer Kept { float kept[]; };               // of each session (capacity, stride): B * x
layout(std430, binding = 4) writeonly buffer Output { float y[]; };      // (pass tokens, out_stride)
layout(push_constant) uniform Push { ShortConvPush p; };

float product(uint row, uint col) { return gates[row * p.in_stride + col] * gates[row * p.in_stride + 2 * p.cols + col]; }

// Grid: x the columns, y the sessions' blocks of tokens.
void main() {
  const uint col = gl_GlobalInvocationID.x, blocks = (p.tokens + CONV_TOKENS - 1) / CONV_TOKENS;
  const Owner owner = owner_of(gl_WorkGroupID.y / blocks * MEMBER_TOKENS);
  const uint first = gl_WorkGroupID.y % blocks * CONV_TOKENS;
  // The session's first token is always computed.
  const uint count = min(p.tokens, max(owner.end, owner.position + 1) - owner.position);
  if (col >= p.cols || first >= count || owner.position >= owner.context) return;
  const uint ring = owner.slot * p.capacity * p.stride + col;

  float past[MOST_TAPS - 1];  // the products before the token, the last one first
  [[unroll]] for (uint k = 1; k < TAPS; ++k) {
    past[k - 1] = 0;
    if (first >= k)
      past[k - 1] = product(owner.row + first - k, col);
    else if (owner.position + first >= k)
      past[k - 1] = kept[ring + (owner.position + first - k) % p.capacity * p.stride];
  }
  const float bias = BIASED != 0 ? kernel[p.cols * TAPS + col] : 0;
  for (uint t = first; t < min(first + CONV_TOKENS, count); ++t) {
    const uint row = owner.row + t;
    const float own = product(row, col);
    float sum = bias + kernel[col * TAPS + TAPS - 1] * own;
    [[unroll]] for (uint k = 1; k < TAPS; ++k) sum += kernel[col * TAPS + TAPS - 1 - k] * past[k - 1];
    y[row * p.out_stride + col] = gates[row * p.in_stride + p.cols + col] * sum;
    [[unroll]] for (uint k = TAPS - 1; k > 1; --k) past[k - 1] = past[k - 2];
    if (TAPS > 1) past[0] = own;
  }
  if (first > 0) return;
  for (uint t = count - min(count, p.capacity); t < count; ++t)
    kept[ring + (owner.position + t) % p.capacity * p.stride] = product(owner.row + t, col);
}
