// Dot products of a vocabulary table's rows with TOKENS inputs in the table's basis, every bit of them. Everything is `precise` and in a fixed
// order, so that a row's product is the same to the last bit whichever shader, lane or list of rows asks for it: Vulkan's + and * of floats are
// correctly rounded, nothing is reordered, and fma() that `precise` values come of has the same result everywhere on a device (GLSL 4.60,
// section 8.3), whether it rounds once or twice. The heads that read less than every row rest on that.
#include "lib/product.glsl"
#include "lib/planes.glsl"
#include "lib/eight.glsl"

layout(constant_id = 4) const uint FEWEST_REGISTERS = 0;  // 1: a lane loads blocks one by one, and multiplies part of one at a time

// A block's product with the inputs, added to the sums of row i.
void add_block(inout float sums[SUMS], uint i, vec4 weights[8], float scale, uint block, uint stride, uint first_token) {
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    const EightInputs x = eight_inputs((first_token + t) * stride + block * (BLOCK / 4));
    precise vec4 products = weights[0] * floats_of(x, 0);
#define MULTIPLY(j) products = fma(weights[j], floats_of(x, j), products);
    SEVEN(MULTIPLY)
#undef MULTIPLY
    precise const float product = (products.x + products.y) + (products.z + products.w);
    precise const float sum = fma(scale, product, sums[t * ROW_TILES + i]);
    sums[t * ROW_TILES + i] = sum;
  }
}

// The leading columns, in units of their scale.
void leading_weights(out vec4 weights[8], TableRow r, uint rest) {
  const uvec4 high[2] = uvec4[2](part_word(r, TABLE_LEADING, 0, 2), part_word(r, TABLE_LEADING, 1, 2));
  const uvec4 low[2] = uvec4[2](part_word(r, TABLE_LOW(FORMAT, rest), 0, 2), part_word(r, TABLE_LOW(FORMAT, rest), 1, 2));
#define UNPACK(j) weights[j] = signed_bytes(high[j / 4][j % 4]) + unsigned_bytes(low[j / 4][j % 4]) * (1.0 / 256);
  EIGHT(UNPACK)
#undef UNPACK
}

// Four elements of the rest in units of their scale: the first four bits in the upper halves of `upper`'s bytes, the next four in the lower
// halves of `lower`'s, and eight more in `byte`.
vec4 rest_quad(uint upper, uint lower, uint byte) {
  if (FORMAT == FORMAT_Q4) return signed_bytes(upper & 0xf0f0f0f0u) * (1.0 / 16);
  const vec4 eight = signed_bytes(mixed(0xf0f0f0f0u, upper, lower));
  return FORMAT == FORMAT_F16 ? eight + unsigned_bytes(byte) * (1.0 / 256) : eight;
}

// A block of the rest, from its words of planes 0 to 2, its word of plane 3 and its words of plane 4.
void rest_weights(out vec4 weights[8], uint first, uint second, uvec2 two, uvec4 low, uvec4 bytes[2]) {
  const uvec4 fours = fours_of(first, second, two);
#define UNPACK(j) weights[j] = rest_quad(upper_four(fours, j), j < 4 ? low[j % 4] >> 4 : low[j % 4], bytes[j / 4][j % 4]);
  EIGHT(UNPACK)
#undef UNPACK
}

// Places of the parts of a lane's row. Computed before the loops, which do not change them: compilers do not move them out of a loop.
struct TablePlace {
  uint planes, two, low, bytes;  // 16-byte words: the first of planes 0, 2, 3 and 4
  uint scales;                   // a 32-bit word
};
TablePlace place_of(TableRow r, uint rest) {
  const uint quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest);
  return TablePlace(r.tile + TABLE_PLANE_0 * TILE_ROWS + IN_TILE(r.row, 0, quads), r.tile + TABLE_PLANE_2(rest) * TILE_ROWS + IN_TILE(r.row, 0, pairs),
               r.tile + TABLE_PLANE_3(rest) * TILE_ROWS + IN_TILE(r.row, 0, rest), r.tile + TABLE_PLANE_4(rest) * TILE_ROWS + IN_TILE(r.row, 0, rest * 2),
               (r.tile + TABLE_SCALES(FORMAT, rest) * TILE_ROWS) * 4 + IN_TILE(r.row, 0, pairs));
}

// Blocks 2 pair and 2 pair + 1 of the rest, added to the sums; the last one of an odd number is alone.
void add_pair(inout float sums[SUMS], TablePlace places[ROW_TILES], uint pair, uint rest, uint stride, uint first_token) {
  const uint plane_1 = TABLE_QUADS(rest) * TILE_ROWS;  // from plane 0
  const uint last = min(pair * 2 + 1, rest - 1);
  uvec2 first[ROW_TILES], second[ROW_TILES];
  uvec4 two[ROW_TILES], low[ROW_TILES][2], bytes[ROW_TILES][2][2];
  uint scales[ROW_TILES];
  // The words of a plane are loaded for all rows in the order they lie in.
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) first[i] = half_word_at(places[i].planes + pair / 2 * GROUP_ROWS, pair % 2);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) second[i] = half_word_at(places[i].planes + plane_1 + pair / 2 * GROUP_ROWS, pair % 2);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) two[i] = word_at(places[i].two + pair * GROUP_ROWS);
  [[unroll]] for (uint b = 0; b < 2; ++b)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uint block = b == 0 ? pair * 2 : last;
      if (FORMAT != FORMAT_Q4) low[i][b] = word_at(places[i].low + block * GROUP_ROWS);
      if (FORMAT == FORMAT_F16)
        [[unroll]] for (uint k = 0; k < 2; ++k) bytes[i][b][k] = word_at(places[i].bytes + (block * 2 + k) * GROUP_ROWS);
    }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) scales[i] = small_word_at(places[i].scales + pair * GROUP_ROWS);
  vec4 weights[8];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    rest_weights(weights, first[i].x, second[i].x, two[i].xy, low[i][0], bytes[i][0]);
    add_block(sums, i, weights, scale_of(scales[i]), pair * 2 + 1, stride, first_token);
    if (pair * 2 + 1 < rest) {
      rest_weights(weights, first[i].y, second[i].y, two[i].zw, low[i][1], bytes[i][1]);
      add_block(sums, i, weights, scale_of(scales[i] >> 16), pair * 2 + 2, stride, first_token);
    }
  }
}

const uint QUADS = FORMAT == FORMAT_F16 ? 2 : 4;  // that add_single multiplies at a time

// A block of the rest alone, added to the sums of row i, in the order of add_block: some quads of it, then the next ones.
void add_single(inout float sums[SUMS], uint i, TablePlace place, uint block, uint rest, uint stride, uint first_token) {
  const uint plane_1 = TABLE_QUADS(rest) * TILE_ROWS, word = (place.planes + block / 4 * GROUP_ROWS) * 4 + block % 4;
  const uvec4 fours = fours_of(small_word_at(word), small_word_at(word + plane_1 * 4), half_word_at(place.two + block / 2 * GROUP_ROWS, block % 2));
  uvec4 low;
  if (FORMAT == FORMAT_Q8) low = word_at(place.low + block * GROUP_ROWS);
  precise vec4 products[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) products[t] = vec4(-0.0);  // fma() with it is the product, its sign too
  [[dont_unroll]] for (uint q = 0; q < 8; q += QUADS) {
    const uint half_ = q / 2 % 2, shift = q / 4 * 4;
    uvec4 upper = fours << shift, lower = low >> (4 - shift), bytes;
    if (FORMAT == FORMAT_F16) {
      upper.xy = half_ == 0 ? upper.xy : upper.zw;
      lower.xy = half_word_at(place.low + block * GROUP_ROWS, half_) >> (4 - shift);
      bytes.xy = half_word_at(place.bytes + (block * 2 + q / 4) * GROUP_ROWS, half_);
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      const EightInputs x = eight_inputs((first_token + t) * stride + (block + 1) * (BLOCK / 4));
#define MULTIPLY(j) \
  if (j < QUADS) products[t] = fma(rest_quad(upper[j], lower[j], bytes[j]), floats_of(x, q + j), products[t]);
      FOUR(MULTIPLY)
#undef MULTIPLY
    }
  }
  const float scale = scale_of(small_word_at(place.scales + block / 2 * GROUP_ROWS) >> (block % 2 * 16));
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    precise const float product = (products[t].x + products[t].y) + (products[t].z + products[t].w);
    precise const float sum = fma(scale, product, sums[t * ROW_TILES + i]);
    sums[t * ROW_TILES + i] = sum;
  }
}

// sums: products of rows with the bound inputs first_token + t. Valid in lanes of part 0; every lane of the
// workgroup must call it. cols: of the model.
void table_dot(out float sums[SUMS], TableRow rows[ROW_TILES], uint cols, uint in_stride, uint first_token) {
  const uint rest = (cols + BLOCK - 1) / BLOCK - 1, stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  vec4 weights[8];
  if (part() == 0)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      leading_weights(weights, rows[i], rest);
      add_block(sums, i, weights, scale_of(row_header(rows[i]).x), 0, stride, first_token);
    }
  TablePlace places[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) places[i] = place_of(rows[i], rest);
  for (uint pair = part(); pair < TABLE_PAIRS(rest); pair += SPLIT) {
    if (FEWEST_REGISTERS == 0)
      add_pair(sums, places, pair, rest, stride, first_token);
    else
      for (uint block = pair * 2; block < min(pair * 2 + 2, rest); ++block)
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) add_single(sums, i, places[i], block, rest, stride, first_token);
  }
  join_parts(sums);
}
