// Prepares a token's head: rounds the hidden state to 8 bits a block for the estimates, bounds what that and all rounding can do to a
// logit, and decides from what the last token's bounds achieved how this one's rows are found. One workgroup.
//
// Write x = x' + d with x' = scale * x8 per block, and a row w = r + e with r what the planes read say. Then
//   w.x = r.x' + e.x' + w.d,   |e.x'| <= sum over both halves of the columns of |e_h| |x'_h|   and
//   |w.d| <= sum over blocks of |w_b| |d_b| <= sum of s_b * 128 sqrt(32) * |d_b|
// because a q8 row is s_b times integers of at most 128. r.x' is what an estimate sums, exactly within a block. The logit that is compared
// is itself a sum in fp32: each product passes through at most 3 + 8 + 2 + blocks roundings of 2^-24 (lib/table.glsl), and the
// estimate's through at most 3 + blocks; magnitudes sum to at most the same s_b * 128 sqrt(32) * |x_b| (Higham 2002, section 3.1). `roundings`
// counts both together and twice over, which also covers the few operations that make the bounds themselves.
//
// A q4 row is s_b q + m_b with q of 0 .. 15, so in a block |w_b| is at most sqrt(32) times M_b, the greater of |m_b| and |m_b + 15 s_b|. Its
// estimate sums s_b times one number and m_b times another, whose magnitudes are at most 15 |s_b| + |m_b| <= 3 M_b for each of x: three times
// what w itself allows. The logit's weights are rounded once more, s_b q + m_b being a sum; `roundings` has room for that.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Input { float x[]; };     // (cols), zeros up to a whole block
layout(std430, binding = 3) writeonly buffer Output { uint factors[]; };  // (blocks, ESTIMATE_WORDS)
layout(constant_id = 1) const uint FORMAT = FORMAT_F16;
layout(push_constant) uniform Push { QuantisePush p; };

// |w_b| and the products' magnitudes for |x_b| = 1, of a q8 block of scale 1 and of a q4 block with M_b = 1; rounded up
const float LONGEST_BLOCK = FORMAT == FORMAT_Q4 ? 5.66 : 724.1;    // sqrt(32); 128 sqrt(32)
const float LONGEST_PARTS = FORMAT == FORMAT_Q4 ? 16.98 : 724.1;  // 3 sqrt(32); 128 sqrt(32)
const float MARGIN = 1.0 + 1.0 / 1024;
const float FLUSHED = 1e-36;  // more than a block's squares lose where subnormal numbers are flushed to zero

int eighth(uint block, uint element, float inverse) { return int(roundEven(x[block * BLOCK + element] * inverse)); }

// A block's factors and bounds; returns |x'_b|^2, or what is not finite if the block is not.
float quantise(uint block, float roundings) {
  float largest = 0, length2 = 0;
  for (uint e = 0; e < BLOCK; ++e) {
    largest = max(largest, abs(x[block * BLOCK + e]));
    length2 += x[block * BLOCK + e] * x[block * BLOCK + e];
  }
  const float scale = largest / 127, inverse = scale > 1e-30 ? 1 / scale : 0;
  int sum = 0;
  float left2 = 0, rounded2 = 0;
  for (uint w = 0; w < 2; ++w)
    for (uint s = 0; s < 8; ++s) {
      const uint element = w * 16 + 4 * (s % 4) + s / 4;
      const int a = clamp(eighth(block, element, inverse), -127, 127), b = clamp(eighth(block, element + 2, inverse), -127, 127);
      factors[block * ESTIMATE_WORDS + w * 8 + s] = uint(b + (a << 16));
      sum += a + b;
      const float left_a = x[block * BLOCK + element] - scale * float(a), left_b = x[block * BLOCK + element + 2] - scale * float(b);
      left2 += left_a * left_a + left_b * left_b;
      rounded2 += scale * float(a) * (scale * float(a)) + scale * float(b) * (scale * float(b));
    }
  const float error =
      LONGEST_BLOCK * (sqrt(left2 + FLUSHED) * MARGIN) + LONGEST_PARTS * sqrt(length2 + FLUSHED) * (roundings + 1.0 / 4194304);
  factors[block * ESTIMATE_WORDS + ESTIMATE_SCALE] = floatBitsToUint(scale);
  factors[block * ESTIMATE_WORDS + ESTIMATE_SUM] = uint(sum);
  factors[block * ESTIMATE_WORDS + ESTIMATE_ERROR] = floatBitsToUint(error);
  factors[block * ESTIMATE_WORDS + ESTIMATE_ERROR + 1] = 0;
  return is_finite(length2) ? rounded2 : length2;  // max() and int() may have hidden a NaN
}

Indirect groups(bool wanted, uint count) { return Indirect(wanted ? count : 0, 1, 1); }

// What the last token's bounds achieved decides; answers do not depend on it. Reading less and failing costs time, so after a failure a
// while passes before the next attempt, longer each time.
uint next_mode() {
  const bool planes = FORMAT == FORMAT_Q8;
  uint mode = state.head.mode, wait = state.head.wait, backoff = max(state.head.backoff, 8u);
  // From three quarters of the rows on, half of plane 1 for all is fewer bytes, and less time long before. Its other half is worth
  // reading for all from a tenth on, because eight rows share their cache lines; below 256 columns the bytes saved count for more.
  const bool rarely = mode == HEAD_SWEEP || p.cols < 256;
  const uint most = rarely ? state.head.positions / 4 * 3 : state.head.positions / 10;
  if (mode < HEAD_BOTH && planes && state.head.refine_count > most) {
    mode += 1;
    wait = backoff;
    backoff = min(backoff * 2, 64u);
  } else if (mode != HEAD_ALL && state.head.exact_count > state.head.positions / 3) {
    mode = HEAD_ALL;
    wait = backoff;
    backoff = min(backoff * 2, 64u);
  } else if (wait > 0) {
    wait -= 1;
  } else if (mode == HEAD_SWEEP) {
    backoff = 8;
  } else {
    mode = planes ? mode - 1 : HEAD_SWEEP;
  }
  state.head.wait = wait;
  state.head.backoff = backoff;
  state.head.mode = mode;
  return mode;
}

void main() {
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, lane = gl_LocalInvocationID.x;
  const float roundings = float(2 * blocks + 64) / 8388608.0;
  float first2 = 0, length2 = 0;  // of the first half of the columns (f16 has none), of the others
  for (uint block = lane; block < blocks; block += THREADS) {
    if (FORMAT != FORMAT_F16) {
      const float block2 = quantise(block, roundings);
      if (block < HALF_BLOCKS(blocks))
        first2 += block2;
      else
        length2 += block2;
    } else {
      for (uint e = 0; e < BLOCK; ++e) {
        const float value = x[block * BLOCK + e];
        length2 += value * value;
        factors[4 + block * BLOCK + e] = floatBitsToUint(value);
      }
    }
  }
  first2 = workgroup_sum(first2);
  length2 = workgroup_sum(length2);
  if (lane > 0) return;
  state.head.hidden_norms[0] = FORMAT == FORMAT_F16 ? 0 : sqrt(first2 + FLUSHED * float(blocks)) * MARGIN;
  state.head.hidden_norms[1] = sqrt(length2 + FLUSHED * float(blocks)) * MARGIN;
  if (FORMAT == FORMAT_F16) factors[0] = floatBitsToUint(roundings);
  uint mode = HEAD_ALL;
  // A hidden state without a finite norm gives no bounds; the logits themselves decide then.
  if (p.estimates != 0 && params.cut_rank > 0 && params.cut_rank <= MAX_LEADERS / 2 && is_finite(first2 + length2) && first2 + length2 < 1e30) mode = next_mode();
  const uint wanted = max(2 * max(params.cut_rank, params.fast_rows), 8u);
  state.head.leader_count = mode == HEAD_ALL ? 0 : min(clamp(state.head.positions / 256, wanted, max(wanted, 128u)), min(uint(MAX_LEADERS), state.head.positions));
  if (mode == HEAD_ALL) state.head.mode = mode;
  state.head.refine_count = state.head.rest_count = state.head.exact_count = state.head.uncertain = 0;
  state.head.cut = state.head.best_cut = -3.4e38;
  const uint listed = (state.head.positions + p.rows_per_group - 1) / p.rows_per_group, tiles_per_group = p.rows_per_group / TILE_ROWS;
  const uint full = p.full_tiles > 0 ? (p.full_tiles + tiles_per_group - 1) / tiles_per_group : listed;
  const uint last = p.last_tiles > 0 ? (p.last_tiles + tiles_per_group - 1) / tiles_per_group : listed;
  for (uint way = 0; way < HEAD_ALL; ++way) {
    state.head.estimates[2 * way] = groups(mode == way, full);
    state.head.estimates[2 * way + 1] = groups(mode == way, last);
  }
  state.head.leaders = groups(true, (state.head.leader_count + p.rows_per_group - 1) / p.rows_per_group);
  state.head.refine = groups(false, 0);
  state.head.exact = groups(false, 0);
}
