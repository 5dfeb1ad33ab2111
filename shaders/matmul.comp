// y = x W^T for the tokens of a pass: TOKENS at once per lane, one when decoding. For few tokens it does its neighbours'
// work where it can, because a dispatch and its barrier cost more. An RMSNorm (norm.comp): the product that writes x begins it, with x times
// the weights and sums of x^2, and the product that reads those rows ends it. Gates (activate.comp): it applies them.
// WEFT_INT8 (not f16 and q6; WEFT_SUBGROUP's lanes) rounds the inputs to 8 bits (lib/rows_int8.glsl).
// Variants: subgroup texel int8
// Optional: bias norm_weights begun
// Full subgroups: matmul_subgroup matmul_int8
#version 450
#extension GL_GOOGLE_include_directive : require
#define WEFT_SMALL_GROUPS
#define WEFT_GATED
#define WEFT_LANE_ROWS
#ifndef WEFT_INT8
#define WEFT_TWO_FORMATS
#endif
#ifdef WEFT_TEXEL
#include "lib/lanes.glsl"
#endif
#ifdef WEFT_INT8
#define WEFT_SUBGROUP
#endif
#ifndef WEFT_SUBGROUP
#define WEFT_EXACT_ID 15
#endif
#include "lib/rows.glsl"
#ifdef WEFT_INT8
#include "lib/rows_int8.glsl"
#endif

layout(constant_id = 5) const uint ACTIVATION = ACTIVATION_SILU;  // of gates
layout(constant_id = 6) const uint BIAS = 0;                      // 1: there are biases
layout(constant_id = 7) const uint ADD = 0;                       // 1: y += x W^T
layout(constant_id = 8) const uint ENDS_NORM = 0;                 // 1: the inputs are rows of a norm that is begun (abi.h)
layout(constant_id = 9) const uint BEGINS_NORM = 0;               // 1: y is written as such rows, too
#include "lib/activation.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(std430, binding = 5) readonly buffer NormWeights { float norm_weights[]; };  // (rows)
layout(std430, binding = 6) writeonly buffer Begun { float begun[]; };  // (pass tokens, begun_stride)
layout(push_constant) uniform Push { MatmulPush p; };

const uint RESULTS = GATED != 0 && !GATES_APART ? ROW_TILES / 2 : ROW_TILES;  // rows of y that a lane has
#define GROUP_RESULTS (gl_WorkGroupSize.x * RESULTS)

// Lanes that share the sums of a norm's squares, and the whole of what they have, in every lane.
#ifdef WEFT_TEXEL
#define NORM_LANES LANES
uint norm_lane() { return gl_SubgroupInvocationID; }
float norm_sum(float own) { return lanes_sum(own); }
#else
#define NORM_LANES 16
shared float norm_slots[NORM_LANES];
uint norm_lane() { return invocation(); }
float norm_sum(float own) {
  barrier();  // the last token's are read
  if (norm_lane() < NORM_LANES) norm_slots[norm_lane()] = own;
  barrier();
  float sum = norm_slots[0];
  for (uint i = 1; i < NORM_LANES; ++i) sum += norm_slots[i];
  return sum;
}
#endif

#ifndef WEFT_INT8
// The products of the workgroup's rows from first_row on, which all have one format.
void layer_dot(out float sums[SUMS], uint first_token, uint first_row) {
  const uint second_row = SECOND_TILE * TILE_ROWS;
  if (SECOND_TILE > 0 && first_row >= second_row) {
    const uint start = SECOND_TILE * tile_words((p.cols + BLOCK - 1) / BLOCK);
    second_rows_dot(sums, p.cols, start, p.rows - second_row, p.in_stride, first_token, first_row - second_row);
  } else {
    rows_dot(sums, p.cols, 0, SECOND_TILE > 0 ? second_row : p.rows, p.in_stride, first_token, first_row);
  }
}
#endif

// Factors of the tokens' products that end the norm. first: of the bound inputs.
void norm_factors(out float factors[TOKENS], uint first) {
  vec4 squares[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) squares[t] = vec4(0);
  for (uint k = norm_lane(); norm_lane() < NORM_LANES && k < (p.sums + 3) / 4; k += NORM_LANES)
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) squares[t] += floats_at(((first + t) * p.in_stride + NORM_SUMS_AT(p.cols)) / 4 + k);
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    const float sum = norm_sum(squares[t].x + squares[t].y + squares[t].z + squares[t].w);
    factors[t] = inversesqrt(sum / float(p.cols) + p.epsilon);
  }
}

// Writes the sums of a token's squares, one for eight rows (WEFT_TEXEL: for the workgroup's): they do not depend on how many rows a workgroup has.
// squares: of the lane's rows. Every lane of the workgroup calls it.
#ifdef WEFT_TEXEL
void write_norm_sums(float squares[RESULTS], uint sums_at) {
  float square = 0;
  [[unroll]] for (uint i = 0; i < RESULTS; ++i) square += squares[i];
  square = lanes_sum(square);
  if (part() == 0 && lane() == 0) begun[sums_at + gl_WorkGroupID.y] = square;
}
#else
shared float row_squares[LANE_ROWS * ROW_TILES];
void write_norm_sums(float squares[RESULTS], uint sums_at) {
  barrier();  // the last token's are read
  if (part() == 0)
    [[unroll]] for (uint i = 0; i < RESULTS; ++i) row_squares[lane_row_of(i, RESULTS)] = squares[i];
  barrier();
  const uint eights = LANE_ROWS / 8 * RESULTS, eight = gl_WorkGroupID.y * eights + lane();
  if (part() > 0 || lane() >= eights || eight * 8 >= p.rows) return;
  float square = row_squares[lane() * 8];
  for (uint i = 1; i < 8; ++i) square += row_squares[lane() * 8 + i];
  begun[sums_at + eight] = square;
}
#endif

// Grid: x a group of TOKENS tokens, y GROUP_RESULTS rows of the slice: so that neighbours read the same weights, and that llvmpipe, which
// gives each core one stretch of the grid, gives each as many of a short prompt's tokens.
void main() {
  const uint group = gl_WorkGroupID.x, first_row = gl_WorkGroupID.y * GROUP_RESULTS;
  const uint first = p.first_token + group * TOKENS, results = GATED != 0 ? p.rows / 2 : p.rows;
  if (first > 0 && state.pos + first >= state.end) return;
  float sums[SUMS];
#ifdef WEFT_INT8
  rounded_rows_dot(sums, p.cols, p.rows, p.in_stride, group * TOKENS, first_row);
#else
  layer_dot(sums, group * TOKENS, first_row);
#endif
  float gated_sums[SUMS];
  if (GATES_APART) {
    barrier();  // the parts' sums of the gates are joined
#ifdef WEFT_INT8
    rows_dot(gated_sums, p.cols, 0, p.rows, p.in_stride, group * TOKENS, first_row + p.rows / 2);
#else
    layer_dot(gated_sums, group * TOKENS, first_row + p.rows / 2);
#endif
  }
  float factors[TOKENS], squares[TOKENS][RESULTS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    factors[t] = 1;
    [[unroll]] for (uint i = 0; i < RESULTS; ++i) squares[t][i] = 0;
  }
  if (ENDS_NORM != 0) norm_factors(factors, group * TOKENS);
  if (part() == 0) {
    [[unroll]] for (uint i = 0; i < RESULTS; ++i) {
      const uint row = first_row + lane_row_of(i, RESULTS);
      if (row >= results) continue;
      const float shift = BIAS != 0 ? bias[p.row_base + row] : 0;
      const float up_shift = BIAS != 0 && GATED != 0 ? bias[results + row] : 0;
      [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        const uint token = first + t, at = token * p.out_stride + p.row_base + row;
        float value = sums[t * ROW_TILES + i] * factors[t] + shift;
        if (GATED != 0) {
          const float up = GATES_APART ? gated_sums[t * ROW_TILES + i] : sums[t * ROW_TILES + i + ROW_TILES / 2];
          value = gated(value, up * factors[t] + up_shift);
        }
        if (ADD != 0) value += y[at];
        y[at] = value;
        if (BEGINS_NORM != 0) {
          begun[token * p.begun_stride + row] = value * norm_weights[row];
          squares[t][i] = value * value;
        }
      }
    }
  }
  if (BEGINS_NORM == 0) return;
  [[unroll]] for (uint t = 0; t < TOKENS; ++t)
    write_norm_sums(squares[t], (first + t) * p.begun_stride + NORM_SUMS_AT(p.rows));
}
