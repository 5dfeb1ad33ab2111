// Estimates of a row's logit and how far above it the logit can be (quantise.comp), by how much of the row is read. Needs planes.glsl, `state`,
// `params`, and the factors (abi.h) as inputs.

// What a row notes of its leading columns and of the signs, and what all stages share.
struct Row {
  TableRow at;
  float scale, product;  // of the leading columns; with the mean state
  float factor, error;   // of the signs
};
Row row_at(TableRow at, uint rest) {
  const uint first = note_word(at, 0, FORMAT, rest), signs = note_word(at, 1, FORMAT, rest);
  return Row(at, scale_of(first), scale_of(first >> 16), scale_of(signs), note_of(signs >> 16));
}

// At most |t g|, with g of integers up to `largest`.
float longest(float factor, float largest, uint rest) { return factor * largest * sqrt(float(rest * BLOCK)); }

// What every stage's bound has: the leading columns' lower bytes, the mean product's rounding, and that of sums.
float leading_error(Row r, uint rest) {
  const float lower = r.scale * (127.5 / 256 * 5.657), whole = r.scale * (128 * 5.657) + longest(r.factor, 1, rest) + r.error;
  return lower * state.head.lead_norm + abs(r.product) * (1.0 / 2048) + 1e-7 + whole * state.head.fp_error;
}

// A stage of factor t and error |d|; rounded: what its use of 8 bits can cost. It has what the estimate's own sums can lose, too.
float stage_error(Row r, float factor, float error, float largest, bool rounded, uint rest) {
  const float guess = longest(factor, largest, rest), lost = guess * (1.0 / 2048) + longest(1.0 / 16777216, largest, rest);
  return state.head.rest_norm * (error * params.rest_spread + lost) + (rounded ? guess * state.head.round_norm : 0) + guess * state.head.fp_error;
}

// Without the rest: the rest's own norm is what is left.
float leading_only_error(Row r, uint rest) {
  const float guess = longest(r.factor, 1, rest);
  return state.head.rest_norm * sqrt(guess * guess + r.error * r.error) * params.leading_spread;
}

struct Estimate {
  float value, error;  // without leading_error()
};
// ones: sums of the 8-bit values over the columns whose bit of plane 0, or of plane 1, is set; total: over all columns. Their g is 1 or -1, and
// 3, 1, -1 or -3; whole numbers below 2^24.
Estimate with_signs(Row r, float leading, float ones, float total, uint rest) {
  return Estimate(leading + r.factor * (state.head.bit_scale * (2 * ones - total)), stage_error(r, r.factor, r.error, 1, true, rest));
}
Estimate with_two_bits(Row r, float leading, float ones, float second, float total, uint rest) {
  const uint note = note_word(r.at, 2, FORMAT, rest);
  const float factor = scale_of(note);
  return Estimate(leading + factor * (state.head.bit_scale * (4 * ones + 2 * second - 3 * total)),
                  stage_error(r, factor, note_of(note >> 16), 3, true, rest));
}
// product: of the first four bits less 7.5, times their blocks' scales, with the rest. |t g| is at most what signs know of a row, with all errors.
Estimate with_four_bits(Row r, float leading, float product, uint rest) {
  const uint note = note_word(r.at, 3, FORMAT, rest);
  const float factor = scale_of(note), error = note_of(note >> 16), guess = longest(r.factor, 1, rest) + r.error + error;
  const float lost = factor > 0 ? guess * (1.0 / 2048 + 1.0 / 16777216 / factor) : 0;
  return Estimate(leading + factor * product, state.head.rest_norm * (error * params.rest_spread + lost) + guess * state.head.fp_error);
}

// The first four bits of elements 4j .. 4j + 3 of a block, around 0.
vec4 four_bits(uint first, uint second, uint two, uint j) { return unsigned_bytes(quad_of_four(first, second, two, j) >> 4) - 7.5; }
