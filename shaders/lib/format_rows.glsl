// The rows of one format: their places, how their blocks are unpacked, and their products. Part of rows.glsl.
#include "lib/tiles.glsl"
#include "lib/super_blocks.glsl"

// Places of the lane's rows. start: where the rows of this format begin in the bound slice, in 32-bit words. rows: of this format. first_row: the
// workgroup's, counted in these.
void places_of(out Place places[ROW_TILES], uint blocks, uint start, uint rows, uint first_row) {
  const uint last_tile = (rows - 1) / TILE_ROWS, words_of_tile = tile_words(blocks), words_of_row = row_words(blocks);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = (first_row + own_row(i, rows)) % TILE_ROWS;
    // A tile too many reads the last one again: cheaper than a branch around the loads.
    const uint tile = start + min((first_row + own_row(i, rows)) / TILE_ROWS, last_tile) * words_of_tile;
    places[i] = Place(tile / 4 + IN_TILE(row, 0, words_of_row), SCALE_PLACE(tile, tile + words_before_notes(blocks), row, (blocks + RUN - 1) / RUN),
                      SCALE_PLACE(tile, tile + words_before_fifth(blocks), row, blocks));
  }
}

// Scales of the super-block that a lane's turn is in, or the part that the turn needs. By texels a word of 16 bytes costs as much as one of four, so a
// turn is a whole super-block.
#ifdef WEFT_TEXEL
#include "lib/rows_texel.glsl"
const uint SUPER_TURN = SUPER_BLOCKS;
uvec4 super_scales(uint row, uint block) { return word_at(scales_at(row, block)); }
uvec4 block_scales(uvec4 scales, uint notes, uint block) {
  if (NOTED) return uvec4(scales[block % SUPER_BLOCKS / 2], notes, 0, 0);
  return THREE && block % SUPER_BLOCKS / 4 == 1 ? scales.zwzw : scales;
}
#else
const uint SUPER_TURN = 2;
// block: even. The scales of four bits and more are moved to the place of blocks 0 and 1.
uvec4 super_scales(uint row, uint block) {
  const uint at = scales_at(row, block), b = block % SUPER_BLOCKS;
  if (NOTED) return uvec4(small_word_at(at * 4 + b / 2), 0, 0, 0);
  if (THREE) return uvec4(half_word_at(at, b / 4), 0, 0);
  const uvec4 notes = word_at(at);
  return uvec4(notes.xy >> (b * 4), notes.z >> (b * 2), notes.w);
}
uvec4 block_scales(uvec4 scales, uint notes, uint block) { return NOTED ? uvec4(scales.x, notes, 0, 0) : scales; }
#endif
// The place of a block's scales among those.
uint scales_block(uint block) { return NOTED || THREE ? block : block % SUPER_TURN; }

// The word of block + s of a row, of words that the turn loads at once. Steps of super-blocks begin at an even block.
uint step_word(uint block, uint s, uint blocks) {
  if (SUPER) return block_word(block) + s * LOWER / 4;
  return block_word(s == 0 ? block : min(block + s, blocks - 1));
}

// The upper bits of a block.
uvec2 upper_bits(uint row, uint block) {
  const uint at = upper_word(row, block, 0);
  if (UPPER == 0) return uvec2(0);
  return UPPER == 1 ? uvec2(small_word_at(at), 0) : half_word_at(at / 4, at % 4 / 2);
}

// A block of integers from its words. Every second quad of q4k has 16 times its integers, in units of UNIT: that saves a shift.
#define UNIT(quad) (FORMAT == FORMAT_Q4K && (quad) % 2 == 1 ? 1.0 / 16 : 1.0)
void unpack_integers(out vec4 weights[8], uvec4 lower, uvec2 upper, uint block) {
  if (FORMAT == FORMAT_Q4K) {
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      weights[e * 2] = unsigned_bytes(lower[e] & 0x0f0f0f0fu);
      weights[e * 2 + 1] = unsigned_bytes(lower[e] & 0xf0f0f0f0u);
    }
    return;
  }
  [[unroll]] for (uint e = 0; e < 4; ++e) integers_of(weights[e * 2], weights[e * 2 + 1], lower_of(lower, block, e), upper[e * UPPER / 4], e);
}

// A block of a row from its 16-byte words; what its products are to be multiplied with is returned. Not of SUPER.
float unpack_block(out vec4 weights[8], uvec4 words[BLOCK_WORDS], uvec2 upper, uint block, uint scales) {
  if (PACKED) {
    unpack_integers(weights, words[0], upper, block);
    if (!MINIMA) return scale_of_pair(scales, block);
    const vec2 line = line_of(uvec4(scales), block, 0);
    [[unroll]] for (uint j = 0; j < 8; ++j) weights[j] = line.x * weights[j] + line.y;
    return 1;
  }
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
  return FORMAT == FORMAT_Q8 ? scale_of_pair(scales, block) : 1;
}

const uint TURN = SUPER ? SUPER_TURN : RUN > STEP ? RUN : STEP;  // blocks of a lane that lie side by side
const uint SCALE_LOADS = NOTED && RUN == 1 ? STEP : 1;

// sums: products of the lane's rows with the bound inputs first_token + t. Valid in lanes of part 0; every
// lane of the workgroup must call it. Sums of rows after `rows` mean nothing. start, rows, first_row: as places_of() has them.
void rows_dot(out float sums[SUMS], uint cols, uint start, uint rows, uint in_stride, uint first_token, uint first_row) {
  const uint blocks = (cols + BLOCK - 1) / BLOCK, stride = in_stride / 4;
  Place places[ROW_TILES];
  places_of(places, blocks, start, rows, first_row);
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
      [[unroll]] for (uint s = 0; s < SCALE_LOADS; ++s) { LOAD_NOTES(scales[s], places, scales, min(first / RUN + s, (blocks - 1) / RUN)) }
    uvec4 scales_of_super[ROW_TILES];
    if (SUPER)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) scales_of_super[i] = super_scales(places[i].words, first);
#ifdef WEFT_TEXEL
    vec2 units[ROW_TILES];
    if (SUPER)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
        units[i] = units_of_super(block_scales(scales_of_super[i], NOTED ? NOTES_OF(scales[0], i, first_row + own_row(i, rows)) : 0, first), first);
#endif
    const uint end = min(first + TURN, blocks);
    uint block = first;
    do {
      uvec4 words[STEP][ROW_TILES][BLOCK_WORDS];
      [[unroll]] for (uint s = 0; s < STEP; ++s)
        [[unroll]] for (uint k = 0; k < BLOCK_WORDS; ++k)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
            words[s][i][k] = word_at(places[i].words + (step_word(block, s, blocks) + k) * GROUP_ROWS);
      uvec2 upper[STEP][ROW_TILES];
      if (SUPER)
        [[unroll]] for (uint s = 0; s < STEP; ++s)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) upper[s][i] = upper_bits(places[i].words, block + s);
      if (FIFTH)
        [[unroll]] for (uint s = 0; s < STEP; ++s) {
          uvec4 fifth[SCALE_SHARES];
          LOAD_NOTES(fifth, places, fifth, s == 0 ? block : min(block + s, blocks - 1))
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) upper[s][i] = uvec2(NOTES_OF(fifth, i, first_row + own_row(i, rows)), 0);
        }
#ifdef WEFT_TEXEL
      vec4 factors[ROW_TILES];
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        const uvec4 own = SUPER ? block_scales(scales_of_super[i], 0, block) : uvec4(NOTED ? NOTES_OF(scales[0], i, first_row + own_row(i, rows)) : 0);
        factors[i] = factors_of(own, units[i], scales_block(block));
      }
      multiply_block(sums, words[0], upper[0], factors, block, first_token * stride + block * (BLOCK / 4), stride);
#else
      [[unroll]] for (uint s = 0; s < STEP; ++s) {
        if (s == 0 || SUPER || block + s < blocks) {  // not a break: NVK then keeps the words in memory
          vec4 weights[ROW_TILES][8];
          float scale[ROW_TILES], first_scale[ROW_TILES];  // the latter of the block's first half
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
            const uint notes = NOTED ? NOTES_OF(scales[s % SCALE_LOADS], i, first_row + own_row(i, rows)) : 0;
            if (SUPER) {
              unpack_integers(weights[i], words[s][i][0], upper[s][i], block + s);
              const uvec4 own = block_scales(scales_of_super[i], notes, block + s);
              const uint b = STEP == SUPER_TURN && !NOTED && !THREE ? s : scales_block(block + s);
              if (MINIMA) {
                const vec2 line = line_of(own, b, 0), second = SCALES == 2 ? line_of(own, b, 1) : line;
                [[unroll]] for (uint j = 0; j < 8; ++j)
                  weights[i][j] = j < 4 ? UNIT(j) * line.x * weights[i][j] + line.y : UNIT(j) * second.x * weights[i][j] + second.y;
                first_scale[i] = scale[i] = 1;
              } else {
                const vec2 halves = halves_of_super(own, b);
                first_scale[i] = halves.x;
                scale[i] = halves.y;
              }
            } else {
              scale[i] = unpack_block(weights[i], words[s][i], upper[s][i], block + s, notes);
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
#endif
    } while (TURN > STEP && (block += STEP) < end);
  }
  join_parts(sums);
}
