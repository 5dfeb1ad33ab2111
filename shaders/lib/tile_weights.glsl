// Loads of a product by tiles, the same for all ways to multiply: for each block of columns, the threads of a workgroup load the weights of
// TILE_ROWS rows, still packed. The includer declares FORMAT and THREADS.
#include "lib/bytes.glsl"
#include "lib/half.glsl"
#include "lib/tiles.glsl"
#include "lib/super_blocks.glsl"

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer WordPairs { uvec2 word_pairs[]; };
layout(std430, binding = 0) readonly buffer SmallWords { uint small_words[]; };

// A thread's loads of the next block: eight columns of some rows.
const uint EIGHTS = BLOCK / 8, WEIGHTS = TILE_ROWS * EIGHTS / THREADS;
// Distance between a thread's rows: GROUP_ROWS. A constant, so that values that depend on i alone take no registers.
const uint WEIGHTS_APART = THREADS / EIGHTS;
uint weight_row() { return gl_LocalInvocationIndex / EIGHTS; }
uint weight_eight() { return gl_LocalInvocationIndex % EIGHTS; }

// tile: where the workgroup's rows begin, in 32-bit words.
// scale_words: notes; q6: the scales of two blocks, then notes; q5k and q4k: the super-block's last word.
void load_weights(out uvec4 weights[WEIGHTS], out uvec4 scale_words[WEIGHTS], uint block, uint blocks, uint tile) {
  const uint count = row_words(blocks), eight = weight_eight(), scale_count = (blocks + RUN - 1) / RUN;
  const uint word = tile / 4 + IN_TILE(weight_row(), block_word(block) + eight * BLOCK_WORDS / 4, count), row = tile / 4 + IN_TILE(weight_row(), 0, count);
  const uint scales = tile + TILE_ROWS * 4 * count + IN_TILE(weight_row(), block / RUN, scale_count);
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint at = word + i * WEIGHTS_APART * count;
    if (FORMAT == FORMAT_F16) weights[i] = words[at];
    if (FORMAT == FORMAT_Q8) weights[i].xy = word_pairs[at * 2 + eight % 2];
    if (FORMAT == FORMAT_Q4) weights[i].x = small_words[at * 4 + eight];
    if (NOTED) scale_words[i].x = small_words[scales + i * WEIGHTS_APART * scale_count];
    if (!SUPER) continue;
    const uint own = row + i * WEIGHTS_APART * count;
    weights[i].x = small_words[at * 4 + eight];
    if (UPPER > 0) weights[i].y = small_words[upper_word(own, block, eight)];
    if (FORMAT == FORMAT_Q6)
      scale_words[i].xy = uvec2(small_words[scales_at(own, block) * 4 + block % SUPER_BLOCKS / 2], scale_words[i].x);
    else
      scale_words[i] = words[scales_at(own, block)];
  }
}

// The lowest four numbers of 4 bits.
vec4 four_bits(uint word) { return vec4((uvec4(word) >> uvec4(0, 4, 8, 12)) & 15u); }

// Unpacks eight weights, and returns the factor that they must still be multiplied with.
float unpack(out vec4 low, out vec4 high, uvec4 eight, uvec4 scale_words, uint block) {
  const uint scales = scale_words.x;
  if (SUPER) integers_of(low, high, eight.x, eight.y, weight_eight());
  if (FORMAT == FORMAT_Q6) {
    const vec2 halves = q6_scales(scale_words.xy, block);
    return weight_eight() < 2 ? halves.x : halves.y;
  }
  if (SUPER) {
    const vec2 line = scale_and_minimum(scale_words, block);
    low = line.x * low + line.y;
    high = line.x * high + line.y;
    return 1;
  }
  if (FORMAT == FORMAT_F16) {
    low = vec4(unpackHalf2x16(eight.x), unpackHalf2x16(eight.y));
    high = vec4(unpackHalf2x16(eight.z), unpackHalf2x16(eight.w));
    return 1;
  }
  if (FORMAT == FORMAT_Q8) {
    low = signed_bytes(eight.x);
    high = signed_bytes(eight.y);
    return scale_of(block % 2 == 0 ? scales : scales >> 16);
  }
  const float scale = scale_of(scales), minimum = scale_of(scales >> 16);
  low = scale * four_bits(eight.x) + minimum;
  high = scale * four_bits(eight.x >> 16) + minimum;
  return 1;
}

#ifdef WEFT_PEAKS
// The largest magnitudes of the f16 weights that each thread has loaded.
shared vec4 weight_peaks[FORMAT == FORMAT_F16 ? TILE_ROWS : 1];

float peak_of(vec4 v) { return max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))); }
void note_weight_peaks(uvec4 weights[WEIGHTS]) {
  if (FORMAT != FORMAT_F16) return;
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    vec4 low, high;
    unpack(low, high, weights[i], uvec4(0), 0);
    weight_peaks[weight_row() + i * WEIGHTS_APART][weight_eight()] = max(peak_of(low), peak_of(high));
  }
}
float weight_peak(uint row) { return peak_of(weight_peaks[row]); }
#endif
