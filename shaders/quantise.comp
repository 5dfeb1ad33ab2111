// Prepares a token's head: the factors that estimates take from the hidden state, the bounds of their errors, and, from the success of the last
// token's bounds, the mode in which this token's rows are found. One workgroup.
//
// The bounds. Write x = m + y with m the mean state, and a row w as it is stored: w.x = w.m + w1.y1 + w2.y2, of the leading columns and of the rest.
// A row keeps w.m as a half. An estimate knows the upper bytes of w1, and takes the middle of the lower ones: an error of at most
// scale * 127.5 / 256 a column; by Cauchy and Schwarz, its norm times |y1| is a bound. It knows g, the first bits of the rest, and estimates w2.y2 by
// t g.y2 with the row's factor t. The error is d.y2, d = w2 - t g; the row keeps |d|. So
//   proven:  |d.y2| <= |d| |y2|  (rest_spread = 1).
//   by chance:  t is such that d is at a right angle to e, the row's rest before it was rounded. g and w2 are functions of the rotated row alone.
//   If the rotation had been drawn uniformly, then, given the rotated row, it would still be uniform among the rotations that lead there. Seen from
//   before the rotation, d would be a uniformly random direction at a right angle to e, while y2 there depends on no rotation. So d.y2 is at most
//   |d| |y2| u with u the first coordinate of a random point on the unit sphere of one dimension less than the rest has (Gao and Long 2024,
//   "RaBitQ", theorem 3.2), and rest_spread is a u that is exceeded with the probability asked for (vocab/heads/pruned.cpp). The rotation here is six
//   rounds of signs and Hadamard matrices, not a uniform one; tests/vocab/estimate_errors_test.cpp measures no effect of this difference. With two
//   rounds the effect was large.
// Stages 1 and 2 take y2 rounded to 8 bits, y2' : t g.(y2 - y2') is at most |t g| |y2 - y2'|, and |t g| at most t sqrt(cols) times the largest of g's
// integers. Because t is rounded to a half, a part of d is along e: at most |t g| (2^-11 + the loss of a subnormal half).
//
// Rounding: the logit that is compared is a sum in fp32. Each product passes through at most 8 + 2 + 1 + blocks roundings of 2^-24 (lib/table.glsl), and
// in an estimate through 3 + 8 + 2 + blocks; magnitudes sum to at most |w| |x| (Higham 2002, section 3.1). fp_error counts all of them twice over.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"
#include "lib/eight.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Input { float x[]; };  // (cols) in the table's basis
layout(std430, binding = 3) readonly buffer Basis { uint basis[]; };
layout(std430, binding = 4) writeonly buffer Output { uint factors[]; };  // FACTOR_WORDS
layout(push_constant) uniform Push { QuantisePush p; };

const float MARGIN = 1.0 + 1.0 / 1024;
const float FLUSHED = 1e-36;  // more than a column's square loses where subnormal numbers are flushed to zero

float centred(uint column) { return x[column] - uintBitsToFloat(basis[BASIS_MEAN(p.cols) + column]); }

// Stores the bits of a block of the rest: seven of the amounts, and the signs. Returns the squared norm of the rounding errors.
float store_bits(uint block, float scale, float inverse, inout float total) {
  uint bits[8] = uint[8](0, 0, 0, 0, 0, 0, 0, 0);
  float left = 0;
  for (uint e = 0; e < BLOCK; ++e) {
    const float value = centred(LEADING + block * BLOCK + e);
    const int rounded = clamp(int(roundEven(value * inverse)), -127, 127);
    const float open = value - scale * float(rounded);
    left += open * open;
    total += float(abs(rounded));
    const uint amount_and_sign = uint(abs(rounded)) | (rounded < 0 ? 128u : 0u);
#define TAKE(k) bits[k] |= (amount_and_sign >> k & 1) << (8 * (e % 4) + 7 - e / 4);
    EIGHT(TAKE)
  }
#define STORE(k) factors[(FACTOR_BITS(p.cols / 32 - 1) + block / 4 * 8 + k) * 4 + block % 4] = bits[k];
  EIGHT(STORE)
  return left;
}

Indirect groups(bool wanted, uint count) { return Indirect(wanted ? count : 0, 1, 1); }

// The mode for this token, from the success of the last token's bounds; answers do not depend on it. A failed attempt to read less costs time, so the
// next attempt waits for some tokens, twice as many each time. One failure alone means little: tokens differ.
uint next_mode() {
  const uint stages = ESTIMATE_STAGES(p.format);
  uint mode = max(state.head.mode, params.least_mode), wait = state.head.wait, backoff = max(state.head.backoff, 1u);
  // A row that is picked out takes several times as long as one of a whole table, although it has the same bytes.
  const uint many = state.head.positions / (mode == HEAD_LEADING ? 4 : 2);
  const uint computed = state.head.every != 0 ? state.head.first_count : state.head.exact_count;
  const bool refined_many = mode < stages && state.head.refine_counts[mode] > many, computed_most = computed > state.head.positions / 3;
  // An attempt costs as much as a quarter to a half of all rows, so attempts must succeed often enough to save more.
  const bool undecided = params.cut_mass != 0 && state.head.every != 0 && state.head.undecided > 0.6;
  if (mode < HEAD_ALL && (refined_many || computed_most || undecided)) {
    mode = computed_most || undecided ? HEAD_ALL : mode + 1;
    wait = backoff;
    backoff = min(backoff * 2, 64u);
  } else if (wait > 0) {
    wait -= 1;
  } else if (mode == params.least_mode) {
    backoff = 1;
  } else {
    mode = min(mode - 1, stages);
  }
  state.head.wait = wait;
  state.head.backoff = backoff;
  state.head.mode = mode;
  return mode;
}

// Writes the factors. Returns true in lane 0 if they give finite bounds.
bool prepare() {
  const uint rest = p.cols / 32 - 1, lane = gl_LocalInvocationID.x;
  float largest = 0, all2 = 0, leading2 = 0, rest2 = 0, leading = 0;
  for (uint i = lane; i < p.cols; i += THREADS) {
    const float y = centred(i);
    factors[i] = floatBitsToUint(y);
    all2 += x[i] * x[i];
    if (i < LEADING) {
      leading2 += y * y;
      leading += y;
    } else {
      rest2 += y * y;
      largest = max(largest, abs(y));
    }
  }
  all2 = workgroup_sum(all2);
  leading2 = workgroup_sum(leading2);
  leading = workgroup_sum(leading);
  rest2 = workgroup_sum(rest2);
  largest = workgroup_max(largest);
  const float scale = largest / 127, inverse = scale > 1e-30 ? 1 / scale : 0;
  float left2 = 0, total = 0;
  for (uint block = lane; block < TABLE_QUADS(rest) * 4; block += THREADS) {
    if (block < rest)
      left2 += store_bits(block, scale, inverse, total);
    else
      for (uint k = 0; k < 8; ++k) factors[(FACTOR_BITS(rest) + block / 4 * 8 + k) * 4 + block % 4] = 0;
  }
  left2 = workgroup_sum(left2);
  total = workgroup_sum(total);
  if (lane > 0) return false;
  const float flushed = FLUSHED * float(p.cols);
  const float known[12] = float[12](leading, total, scale, sqrt(all2 + flushed) * MARGIN * float(2 * (p.cols / 32) + 64) / 8388608.0,
                                    sqrt(leading2 + flushed) * MARGIN, sqrt(rest2 + flushed) * MARGIN, sqrt(left2 + flushed) * MARGIN,
                                    params.rest_spread, params.leading_spread, sqrt(float(rest * BLOCK)), 0, 0);
#define WRITE(i) factors[FACTOR_KNOWN(rest) * 4 + i] = floatBitsToUint(known[i]);
  EIGHT(WRITE) WRITE(8) WRITE(9) WRITE(10) WRITE(11)
  const float sum = all2 + leading2 + rest2;  // not finite if one of them is not; max() and int() may have hidden a NaN
  return is_finite(sum) && sum < 1e30;
}

void main() {
  const bool usable = prepare();
  if (gl_LocalInvocationID.x > 0) return;
  uint mode = HEAD_ALL;
  // A hidden state without a finite norm gives no bounds; the logits themselves decide then.
  if (usable && p.estimates != 0 && params.cut_rank > 0 && params.cut_rank <= MAX_LEADERS / 2) mode = next_mode();
  const uint wanted = max(2 * params.cut_rank, 8u);
  state.head.leader_count = mode == HEAD_ALL ? 0 : min(clamp(state.head.positions / 256, wanted, max(wanted, 128u)), min(uint(MAX_LEADERS), state.head.positions));
  if (mode == HEAD_ALL) state.head.mode = mode;
  state.head.exact_count = state.head.every = state.head.first_count = 0;
  for (uint i = 0; i < ESTIMATES; ++i) {
    state.head.refine_counts[i] = 0;
    state.head.refine[i] = groups(false, 0);
  }
  state.head.cut = state.head.floor = -3.4e38;
  const uint listed = (state.head.positions + p.rows_per_group - 1) / p.rows_per_group, tiles_per_group = p.rows_per_group / TILE_ROWS;
  const uint full = p.full_tiles > 0 ? (p.full_tiles + tiles_per_group - 1) / tiles_per_group : listed;
  const uint last = p.last_tiles > 0 ? (p.last_tiles + tiles_per_group - 1) / tiles_per_group : listed;
  for (uint way = 0; way < HEAD_ALL; ++way) {
    state.head.estimates[2 * way] = groups(mode == way, full);
    state.head.estimates[2 * way + 1] = groups(mode == way, last);
  }
  state.head.leaders = groups(true, (state.head.leader_count + p.rows_per_group - 1) / p.rows_per_group);
  state.head.exact = groups(false, 0);
}
