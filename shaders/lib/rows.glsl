// Dot products of a layer matrix's rows with TOKENS inputs. The layout of tiles is in abi.h.
#include "lib/product.glsl"
#include "lib/tiles.glsl"
#include "lib/super_blocks.glsl"

// 1: the first half of the matrix's rows are gates, the second half what they gate; a lane has as many of both, in this order. With one
// row a lane at once, the includer asks for the gates and then for what they gate.
#ifdef WEFT_GATED
layout(constant_id = 4) const uint GATED = 0;
#else
const uint GATED = 0;
#endif

// Row i of the lane's, counted from the first of the workgroup's rows or gates. rows: of the matrix.
uint own_row(uint i, uint rows) {
  if (GATED == 0 || ROW_TILES == 1) return lane_row(i);
  return lane_row_of(i % (ROW_TILES / 2), ROW_TILES / 2) + (i < ROW_TILES / 2 ? 0 : rows / 2);
}

// Where a lane's row i begins. It is worked out before the loops: llvmpipe's compiler does not move out what they do not change.
struct Place {
  uint words;  // 16-byte word 0
  uint scales;  // WEFT_TEXEL: the 16-byte words of the first scales of the row's group; else its first scales, a 32-bit word
};

// Scales of the 32 rows of a group are eight texels, so eight lanes load one each and share them: one load for four rows of each.
#ifdef WEFT_TEXEL
const uint OF_SHARE = GATED != 0 && ROW_TILES < 8 ? ROW_TILES / 2 : 4;  // rows of a lane that are in one group
const uint SCALE_SHARES = (ROW_TILES + OF_SHARE - 1) / OF_SHARE;
#define SCALE_PLACE(tile, start, row, count) (((start) + IN_TILE((row) / GROUP_ROWS * GROUP_ROWS, 0, count)) / 4)
#define LOAD_SCALES(loaded, places, j) \
  [[unroll]] for (uint g = 0; g < SCALE_SHARES; ++g) loaded[g] = word_at(places[g * OF_SHARE].scales + (j) * (GROUP_ROWS / 4) + gl_SubgroupInvocationID);
#define SCALES_OF(scales, i, row) subgroupShuffle(scales[(i) / OF_SHARE], (row) % GROUP_ROWS / 4)[(row) % 4]
#else
#define SCALE_SHARES ROW_TILES
#define SCALE_PLACE(tile, start, row, count) ((start) + IN_TILE(row, 0, count))
#define LOAD_SCALES(loaded, places, j) \
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) loaded[i].x = small_word_at(places[i].scales + (j) * GROUP_ROWS);
#define SCALES_OF(scales, i, row) scales[i].x
#endif

// The eight 4-bit numbers of a word, lowest first.
void unpack_fours(out vec4 low, out vec4 high, uint word) {
#ifdef WEFT_SUBGROUP
  // The compilers that this variant is for make one instruction of a byte's conversion, so the numbers become bytes first.
  const vec4 even = unsigned_bytes(word & 0x0f0f0f0fu), odd = unsigned_bytes((word >> 4) & 0x0f0f0f0fu);
  low = vec4(even.x, odd.x, even.y, odd.y);
  high = vec4(even.z, odd.z, even.w, odd.w);
#else
  low = vec4((uvec4(word) >> uvec4(0, 4, 8, 12)) & 15u);
  high = vec4((uvec4(word) >> uvec4(16, 20, 24, 28)) & 15u);
#endif
}

// A block of a row from its 16-byte words; what its products are to be multiplied with is returned.
float unpack_block(out vec4 weights[8], uvec4 words[BLOCK_WORDS], uint block, uint scales) {
  if (FORMAT == FORMAT_Q4) {
    const float scale = scale_of(scales), minimum = scale_of(scales >> 16);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      vec4 low, high;
      unpack_fours(low, high, words[0][i]);
      weights[i * 2] = scale * low + minimum;
      weights[i * 2 + 1] = scale * high + minimum;
    }
    return 1;
  }
  [[unroll]] for (uint k = 0; k < BLOCK_WORDS; ++k) {
    if (FORMAT == FORMAT_Q8)
      [[unroll]] for (uint i = 0; i < 4; ++i) weights[(k * 4 + i) % 8] = signed_bytes(words[k][i]);
    else {
      weights[(k * 2) % 8] = vec4(unpackHalf2x16(words[k].x), unpackHalf2x16(words[k].y));
      weights[(k * 2 + 1) % 8] = vec4(unpackHalf2x16(words[k].z), unpackHalf2x16(words[k].w));
    }
  }
  return FORMAT == FORMAT_Q8 ? scale_of(block % 2 == 0 ? scales : scales >> 16) : 1;
}

// Places of the lane's rows. first_row: the workgroup's, counted in the slice.
void places_of(out Place places[ROW_TILES], uint blocks, uint rows, uint first_row) {
  const uint last_tile = (rows - 1) / TILE_ROWS, words_of_tile = tile_words(blocks), words_of_row = row_words(blocks);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = (first_row + own_row(i, rows)) % TILE_ROWS;
    // A tile too many reads the last one again: cheaper than a branch around the loads.
    const uint tile = min((first_row + own_row(i, rows)) / TILE_ROWS, last_tile) * words_of_tile;
    places[i] = Place(tile / 4 + IN_TILE(row, 0, words_of_row), SCALE_PLACE(tile, tile + TILE_ROWS * 4 * words_of_row, row, (blocks + RUN - 1) / RUN));
  }
}

// Scales of the super-block that a lane's turn is in, or the part that the turn needs. By texels a word of 16 bytes costs as much as one of four, so a
// turn is a whole super-block.
#ifdef WEFT_TEXEL
const uint SUPER_TURN = SUPER_BLOCKS;
uvec4 super_scales(uint row, uint block) { return word_at(scales_at(row, block)); }
uint pair_scales(uvec4 scales, uint block) { return scales[block % SUPER_BLOCKS / 2]; }
#else
const uint SUPER_TURN = 2;
uvec4 super_scales(uint row, uint block) {
  const uint at = scales_at(row, block);
  return FORMAT == FORMAT_Q6 ? uvec4(small_word_at(at * 4 + block % SUPER_BLOCKS / 2), 0, 0, 0) : word_at(at);
}
uint pair_scales(uvec4 scales, uint block) { return scales.x; }
#endif

// The upper bits of a block.
uvec2 upper_bits(uint row, uint block) {
  const uint at = upper_word(row, block, 0);
  if (UPPER == 0) return uvec2(0);
  return UPPER == 1 ? uvec2(small_word_at(at), 0) : half_word_at(at / 4, at % 4 / 2);
}

// A block of integers from its words.
void unpack_super(out vec4 weights[8], uvec4 lower, uvec2 upper) {
  [[unroll]] for (uint e = 0; e < 4; ++e) integers_of(weights[e * 2], weights[e * 2 + 1], lower[e], upper[e * UPPER / 4], e);
}

// Blocks that a lane loads before it multiplies the first of them: more bytes are on their way at once.
#ifdef WEFT_LANE_ROWS
layout(constant_id = 11) const uint STEP = 1;
// Words of an input that the workgroup brings to shared memory first; 0: lanes load inputs as they need them.
layout(constant_id = 12) const uint STAGED = 0;
shared vec4 staged[STAGED > 0 ? STAGED : 1];
#else
const uint STEP = 1;
#endif
const uint TURN = SUPER ? SUPER_TURN : RUN > STEP ? RUN : STEP;  // blocks of a lane that lie side by side
const uint SCALE_LOADS = FORMAT == FORMAT_Q4 ? STEP : 1;

// sums: products of the lane's rows with the bound inputs first_token + t. Valid in lanes of part 0; every
// lane of the workgroup must call it. Sums of rows after `rows` mean nothing.
void rows_dot(out float sums[SUMS], uint cols, uint rows, uint in_stride, uint first_token, uint first_row) {
  const uint blocks = (cols + BLOCK - 1) / BLOCK, stride = in_stride / 4;
  Place places[ROW_TILES];
  places_of(places, blocks, rows, first_row);
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
#ifdef WEFT_LANE_ROWS
  if (STAGED > 0) {
    for (uint i = invocation(); i < STAGED; i += LANE_ROWS * SPLIT) staged[i] = floats_at(first_token * stride + i);
    barrier();
  }
#endif
  for (uint first = part() * TURN; first < blocks; first += SPLIT * TURN) {
    uvec4 scales[SCALE_LOADS][SCALE_SHARES];
    if (NOTED)
      [[unroll]] for (uint s = 0; s < SCALE_LOADS; ++s) { LOAD_SCALES(scales[s], places, min(first / RUN + s, (blocks - 1) / RUN)) }
    uvec4 scales_of_super[ROW_TILES];
    if (SUPER)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) scales_of_super[i] = super_scales(places[i].words, first);
    const uint end = min(first + TURN, blocks);
    uint block = first;
    do {
      uvec4 words[STEP][ROW_TILES][BLOCK_WORDS];
      [[unroll]] for (uint s = 0; s < STEP; ++s)
        [[unroll]] for (uint k = 0; k < BLOCK_WORDS; ++k)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
            words[s][i][k] = word_at(places[i].words + (block_word(s == 0 ? block : min(block + s, blocks - 1)) + k) * GROUP_ROWS);
      uvec2 upper[STEP][ROW_TILES];
      if (SUPER)
        [[unroll]] for (uint s = 0; s < STEP; ++s)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) upper[s][i] = upper_bits(places[i].words, block + s);
      [[unroll]] for (uint s = 0; s < STEP; ++s) {
        if (s == 0 || SUPER || block + s < blocks) {  // not a break: NVK then keeps the words in memory
          vec4 weights[ROW_TILES][8];
          float scale[ROW_TILES], first_scale[ROW_TILES];  // the latter of the block's first half
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
            const uint notes = NOTED ? SCALES_OF(scales[s % SCALE_LOADS], i, first_row + own_row(i, rows)) : 0;
            if (SUPER) {
              unpack_super(weights[i], words[s][i][0], upper[s][i]);
              if (MINIMA) {
                const vec2 line = scale_and_minimum(scales_of_super[i], block + s);
                [[unroll]] for (uint j = 0; j < 8; ++j) weights[i][j] = line.x * weights[i][j] + line.y;
                scale[i] = 1;
              } else {
                const vec2 halves = q6_scales(uvec2(pair_scales(scales_of_super[i], block + s), notes), block + s);
                first_scale[i] = halves.x;
                scale[i] = halves.y;
              }
            } else {
              scale[i] = unpack_block(weights[i], words[s][i], block + s, notes);
            }
          }
          [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const EightInputs x = eight_inputs((first_token + t) * stride + (block + s) * (BLOCK / 4));
            float products[ROW_TILES];
            [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = 0;
            [[unroll]] for (uint j = 0; j < 8; ++j) {
#ifdef WEFT_LANE_ROWS
              const vec4 v = STAGED > 0 ? staged[(block + s) * (BLOCK / 4) + j] : floats_of(x, j);
#else
              const vec4 v = floats_of(x, j);
#endif
              if (SCALES == 2 && j == 4)
                [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
                  sums[t * ROW_TILES + i] += first_scale[i] * products[i];
                  products[i] = 0;
                }
              [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] += dot(weights[i][j], v);
            }
            [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[t * ROW_TILES + i] += scale[i] * products[i];
          }
        }
      }
    } while (TURN > STEP && (block += STEP) < end);
  }
  join_parts(sums);
}
