// Estimates of a row's logit, and bounds on how far the logit can be above them (quantise.comp), for each amount of the row that is read. Needs
// planes.glsl, and the factors (abi.h) as inputs.

// Values that quantise writes after the factors; norms are rounded up.
struct Known {
  float leading_sum, bit_sum;  // of the leading columns; of the rest's amounts, 7 bits each
  float bit_scale;             // of the amounts
  float fp_error;              // |the hidden state| * the relative error of fp32 sums, for a product of two norms
  // Norms of the hidden state less the mean state: of its leading columns, of the rest, and of the rest's error after rounding to 8 bits.
  float leading_norm, rest_norm, round_norm;
  float rest_spread, leading_spread;  // SampleParams
  float sqrt_cols;                    // of the rest
};
Known known_of(uint rest) {
  const vec4 a = floats_at(FACTOR_KNOWN(rest)), b = floats_at(FACTOR_KNOWN(rest) + 1), c = floats_at(FACTOR_KNOWN(rest) + 2);
  return Known(a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y);
}

// A row's header.
struct Row {
  TableRow at;
  float scale, product;  // of the leading columns; with the mean state
  float factor, error;   // of the signs
  uvec2 more;            // factor | error of two and of four bits
};
Row row_at(TableRow at) {
  const uvec4 header = row_header(at);
  return Row(at, scale_of(header.x), scale_of(header.x >> 16), scale_of(header.y), norm_of(header.y >> 16), header.zw);
}

// Part of every stage's bound: the leading columns' lower bytes, the rounding of the mean product, and that of sums.
float leading_error(Row r, Known k) {
  const float lower = r.scale * (127.5 / 256 * 5.657), whole = r.scale * (128 * 5.657) + r.factor * k.sqrt_cols + r.error;
  return lower * k.leading_norm + abs(r.product) * (1.0 / 2048) + 1e-7 + whole * k.fp_error;
}

// Error if the rest is not read, from the norm of the row's rest. The signs' guess has such a length that its error is at a right angle to the rest.
float leading_only_error(Row r, Known k) {
  const float guess = r.factor * k.sqrt_cols, norm = r.factor > 0 ? sqrt(max(guess * guess - r.error * r.error, 0.0)) : r.error;
  return k.rest_norm * norm * k.leading_spread;
}

// A stage of factor t and error |d| whose g are integers up to `largest`: |t g| is at most t * largest * sqrt(cols).
float stage_error(float factor, float error, float largest, Known k) {
  const float longest = largest * k.sqrt_cols, guess = factor * longest;
  return k.rest_norm * (error * k.rest_spread + guess * (1.0 / 2048) + longest * (1.0 / 16777216)) + guess * (k.round_norm + k.fp_error);
}

struct Estimate {
  float value, error;  // without leading_error()
};
// signs: the product of the rest, of 7 bits and a sign, with g, which is 1 or -1; all whole numbers are below 2^24.
Estimate with_signs(Row r, float leading, float signs, Known k) {
  return Estimate(leading + r.factor * signs, stage_error(r.factor, r.error, 1, k));
}
// second: count_plane() of plane 1. g is 3, 1, -1 or -3.
Estimate with_two_bits(Row r, float leading, float signs, float second, Known k) {
  const float factor = scale_of(r.more.x);
  return Estimate(leading + factor * (2 * signs + k.bit_scale * (2 * second - k.bit_sum)), stage_error(factor, norm_of(r.more.x >> 16), 3, k));
}
// product: of the first four bits and a half, times their blocks' scales, with the rest. |t g| is at most the guess of the signs plus both errors.
Estimate with_four_bits(Row r, float leading, float product, Known k) {
  const float factor = scale_of(r.more.y), error = norm_of(r.more.y >> 16), guess = r.factor * k.sqrt_cols + r.error + error;
  const float lost = factor > 0 ? guess * (1.0 / 2048 + 1.0 / 16777216 / factor) : 0;
  return Estimate(leading + factor * product, k.rest_norm * (error * k.rest_spread + lost) + guess * k.fp_error);
}

// The first four bits of quad j of a block (planes.glsl), around 0.
vec4 four_bits(uvec4 fours, uint j) { return signed_bytes(upper_four(fours, j) & 0xf0f0f0f0u) * (1.0 / 16) + 0.5; }

// ---- Products of the lane's rows. Every lane of the workgroup must be there, as eight_inputs() asks. ----

// With the mean state and the leading columns' upper bytes, and their lower bytes' middle.
void leading_products(out float sums[ROW_TILES], Row rows[ROW_TILES], Known k) {
  const EightInputs x = eight_inputs(0);
  const float middle = k.leading_sum * (127.5 / 256);
  float products[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = middle;
  [[unroll]] for (uint half_ = 0; half_ < 2; ++half_)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uvec4 high = part_word(rows[i].at, TABLE_LEADING, half_, 2);
      [[unroll]] for (uint j = 0; j < 4; ++j) products[i] += dot(signed_bytes(high[j]), floats_of(x, half_ * 4 + j));
    }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = rows[i].product + rows[i].scale * products[i];
}

// Sums of the hidden state's amounts over the columns whose bit of a plane differs from the sign.
void count_plane(out int sums[ROW_TILES], TableRow rows[ROW_TILES], uint plane, uint rest) {
  const uint quads = TABLE_QUADS(rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = 0;
  for (uint quad = 0; quad < quads; ++quad) {
    const EightInputs x = eight_inputs(FACTOR_BITS(rest) + quad * 8);
    uvec4 differing[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) differing[i] = part_word(rows[i], plane, quad, quads) ^ input_of(x, 7);
    [[unroll]] for (uint k = 0; k < 7; ++k) {
      const uvec4 bits = input_of(x, k);
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        const ivec4 counts = bitCount(differing[i] & bits);
        sums[i] += (counts.x + counts.y + counts.z + counts.w) << k;
      }
    }
  }
}

// The product of the rest with its first four bits and a half.
void four_bit_products(out float sums[ROW_TILES], TableRow rows[ROW_TILES], uint rest) {
  const uint quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = 0;
  for (uint pair = 0; pair < pairs; ++pair) {
    uvec4 two[ROW_TILES];
    uvec2 first[ROW_TILES], second[ROW_TILES];
    uint scales[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      two[i] = part_word(rows[i], TABLE_PLANE_2(rest), pair, pairs);
      const uvec4 a = part_word(rows[i], TABLE_PLANE_0, pair / 2, quads), b = part_word(rows[i], TABLE_PLANE_1(rest), pair / 2, quads);
      first[i] = pair % 2 == 0 ? a.xy : a.zw;
      second[i] = pair % 2 == 0 ? b.xy : b.zw;
      scales[i] = scales_word(rows[i], pair, FORMAT, rest);
    }
    [[unroll]] for (uint b = 0; b < 2; ++b) {
      const uint block = pair * 2 + b;
      if (block < rest) {
        const EightInputs x = eight_inputs((block + 1) * 8);
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          float product = 0;
          const uvec4 fours = fours_of(first[i][b], second[i][b], b == 0 ? two[i].xy : two[i].zw);
          [[unroll]] for (uint j = 0; j < 8; ++j) product += dot(four_bits(fours, j), floats_of(x, j));
          sums[i] += scale_of(b == 0 ? scales[i] : scales[i] >> 16) * product;
        }
      }
    }
  }
}
