// y = x W^T for the tokens of a pass: TOKENS at once per lane, one when decoding.
// Variants: subgroup texel
#version 450
#extension GL_GOOGLE_include_directive : require
#define WEFT_SMALL_GROUPS
#ifdef WEFT_TEXEL
#define WEFT_LANE_INPUT
#include "lib/lanes.glsl"
#endif
#include "lib/rows.glsl"

layout(constant_id = 4) const uint BIAS = 0;  // 1: there are biases
layout(constant_id = 5) const uint ADD = 0;   // 1: y += x W^T

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

#ifdef WEFT_TEXEL
// What becomes of one token's inputs first: with eight lanes sharing the work it costs less here than a dispatch of its own.
layout(constant_id = 6) const uint INPUT = INPUT_PLAIN;
layout(constant_id = 7) const uint ACTIVATION = ACTIVATION_SILU;
layout(binding = 5) uniform usamplerBuffer norm_weights;  // (cols) floats
#include "lib/activation.glsl"
float squares = 0;  // of what the lane has loaded

uvec4 lane_input(uint i) {
  if (INPUT == INPUT_PLAIN) return input_at(i);
  vec4 v = floats_at(i);
  if (INPUT == INPUT_NORMED) {  // norm.comp
    squares += dot(v, v);
    v *= uintBitsToFloat(texelFetch(norm_weights, int(i)));
  } else {  // activate.comp
    const vec4 up = floats_at(i + p.cols / 4);
    [[unroll]] for (uint j = 0; j < 4; ++j) v[j] = activated(v[j]) * up[j];
  }
  return floatBitsToUint(v);
}
float of_norm() { return INPUT == INPUT_NORMED ? inversesqrt(lanes_sum(squares) / float(p.cols) + p.epsilon) : 1; }
#else
float of_norm() { return 1; }
#endif

// Grid: x a group of TOKENS tokens, y WORKGROUP_ROWS rows of the slice: so that neighbours read the same weights, and that llvmpipe, which
// gives each core one stretch of the grid, gives each as many of a short prompt's tokens.
void main() {
  const uint group = gl_WorkGroupID.x, first_row = gl_WorkGroupID.y * WORKGROUP_ROWS;
  const uint first = p.first_token + group * TOKENS;
  if (first > 0 && state.pos + first >= state.end) return;
  float sums[SUMS];
  rows_dot(sums, p.cols, p.rows, p.in_stride, group * TOKENS, first_row);
  const float scale = of_norm();
  if (part() > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = first_row + lane_row(i);
    if (row >= p.rows) continue;
    const float shift = BIAS != 0 ? bias[p.row_base + row] : 0;
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      const uint at = (first + t) * p.out_stride + p.row_base + row;
      const float sum = sums[t * ROW_TILES + i] * scale + shift;
      y[at] = ADD != 0 ? y[at] + sum : sum;
    }
  }
}
