// Loads of a product by tiles, the same for all ways to multiply: for each block of columns, the threads of a workgroup load the weights of
// TILE_ROWS rows, still packed. A matrix may have rows of two formats (lib/second_format.glsl), a tile has one. The includer declares FORMAT and THREADS.
#include "lib/bytes.glsl"
#include "lib/half.glsl"
#include "lib/formats.glsl"
#if defined(WEFT_FP16) || defined(WEFT_MATRICES)
#include "lib/to_halves.glsl"
#endif

// Not 0: the tile of the bound slice from which on rows have SECOND_FORMAT.
layout(constant_id = 4) const uint SECOND_TILE = 0;
layout(constant_id = 5) const uint SECOND_FORMAT = FORMAT_F16;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer WordsAsPairs { uvec2 word_pairs[]; };
layout(std430, binding = 0) readonly buffer WordsAsSmallWords { uint small_words[]; };

// A thread's loads of the next block: eight columns of some rows.
const uint EIGHTS = BLOCK / 8, WEIGHTS = TILE_ROWS * EIGHTS / THREADS;
// Distance between a thread's rows: GROUP_ROWS. A constant, so that values that depend on i alone take no registers.
const uint WEIGHTS_APART = THREADS / EIGHTS;
uint weight_row() { return gl_LocalInvocationIndex / EIGHTS; }
uint weight_eight() { return gl_LocalInvocationIndex % EIGHTS; }

// The lowest four numbers of 4 bits.
vec4 four_bits(uint word) { return vec4((uvec4(word) >> uvec4(0, 4, 8, 12)) & 15u); }

#ifdef WEFT_PEAKS
float peak_of(vec4 v) { return max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))); }
#endif
#ifdef WEFT_INT8
// The lowest four 4-bit numbers of a word, as bytes.
uint four_bytes(uint word) {
  const uint pairs = (word | word << 8) & 0x00ff00ffu;
  return (pairs | pairs << 4) & 0x0f0f0f0fu;
}
#endif

#include "lib/format_tiles.glsl"
#include "lib/second_format.glsl"

const uint MOST_SCALES = SECOND_TILE > 0 && SECOND_SCALES > SCALES ? SECOND_SCALES : SCALES;
const bool ANY_MINIMA = SECOND_TILE > 0 && SECOND_MINIMA || MINIMA;

// True if the workgroup's tile has SECOND_FORMAT. No function: so that no driver sees a format that the matrix does not have (gpu/specialise.h).
#define IN_SECOND (SECOND_TILE > 0 && gl_WorkGroupID.x >= SECOND_TILE)

// The place of the workgroup's tile.
uint first_word(uint blocks) {
  if (!IN_SECOND) return gl_WorkGroupID.x * tile_words(blocks);
  return SECOND_TILE * tile_words(blocks) + (gl_WorkGroupID.x - SECOND_TILE) * second_tile_words(blocks);
}
void load_tile(out uvec4 weights[WEIGHTS], out uvec4 scale_words[WEIGHTS], uint block, uint blocks, uint tile) {
  if (IN_SECOND)
    second_load_weights(weights, scale_words, block, blocks, tile);
  else
    load_weights(weights, scale_words, block, blocks, tile);
}
#ifdef WEFT_PEAKS
void note_tile_peaks(uvec4 weights[WEIGHTS]) {
  if (IN_SECOND)
    second_note_weight_peaks(weights);
  else
    note_weight_peaks(weights);
}
#endif
