// The tiles of one format: how a block's words are loaded, and how eight weights are unpacked for each way to multiply. Part of tile_weights.glsl.
#include "lib/tiles.glsl"
#include "lib/super_blocks.glsl"

// tile: where the workgroup's rows begin, in 32-bit words.
// scale_words: notes; q6 and q2k: the scales of two blocks, then notes; of three bits half of
// the super-block's first word; other super-blocks: all of that.
void load_weights(out uvec4 weights[WEIGHTS], out uvec4 scale_words[WEIGHTS], uint block, uint blocks, uint tile) {
  const uint count = row_words(blocks), eight = weight_eight(), scale_count = (blocks + RUN - 1) / RUN;
  const uint word = tile / 4 + IN_TILE(weight_row(), block_word(block) + eight * BLOCK_WORDS / 4, count), row = tile / 4 + IN_TILE(weight_row(), 0, count);
  const uint scales = tile + words_before_notes(blocks) + IN_TILE(weight_row(), block / RUN, scale_count);
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint at = word + i * WEIGHTS_APART * count;
    if (FORMAT == FORMAT_F16) weights[i] = words[at];
    if (FORMAT == FORMAT_Q8) weights[i].xy = word_pairs[at * 2 + eight % 2];
    if (FORMAT == FORMAT_Q4) weights[i].x = small_words[at * 4 + eight];
    if (NOTED) scale_words[i].x = small_words[scales + i * WEIGHTS_APART * scale_count];
    if (PACKED) weights[i].x = LOWER == 4 ? small_words[at * 4 + eight] : small_words[at * 4 + block % 2 * 2 + eight / 2] >> (eight % 2 * 4);
    if (FIFTH) weights[i].y = small_words[tile + words_before_fifth(blocks) + IN_TILE(weight_row(), block, blocks) + i * WEIGHTS_APART * blocks];
    if (!SUPER) continue;
    const uint own = row + i * WEIGHTS_APART * count;
    if (UPPER > 0) weights[i].y = small_words[upper_word(own, block, eight)];
    if (NOTED)
      scale_words[i].xy = uvec2(small_words[scales_at(own, block) * 4 + block % SUPER_BLOCKS / 2], scale_words[i].x);
    else if (THREE)
      scale_words[i].xy = word_pairs[scales_at(own, block) * 2 + block % SUPER_BLOCKS / 4];
    else
      scale_words[i] = words[scales_at(own, block)];
  }
}

// Unpacks eight weights, and returns the factor that they must still be multiplied with.
float unpack(out vec4 low, out vec4 high, uvec4 eight, uvec4 scale_words, uint block) {
  const uint scales = scale_words.x;
  if (PACKED) integers_of(low, high, eight.x, eight.y, weight_eight());
  if (SUPER && !MINIMA) {
    const vec2 halves = halves_of_super(scale_words, block);
    return weight_eight() < 2 ? halves.x : halves.y;
  }
  if (PACKED && !MINIMA) return scale_of_pair(scales, block);
  if (PACKED) {
    const vec2 line = line_of(scale_words, block, weight_eight() / 2);
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
    return scale_of_pair(scales, block);
  }
  const float scale = scale_of(scales), minimum = scale_of(scales >> 16);
  low = scale * four_bits(eight.x) + minimum;
  high = scale * four_bits(eight.x >> 16) + minimum;
  return 1;
}

#ifdef WEFT_PEAKS
// The largest magnitudes of the f16 weights that each thread has loaded.
shared vec4 weight_peaks[FORMAT == FORMAT_F16 ? TILE_ROWS : 1];

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

// Eight weights for the workgroup's shared memory, as each way to multiply has them.
#if defined(WEFT_MATRICES)
// Value = scale * number + minimum. Not of q2k, whose blocks have two minima (ops/matmul.cpp).
void unpack_to_store(out vec4 low, out vec4 high, out float scale, out float minimum, uvec4 eight, uvec4 scale_words, uint block, uint row) {
  minimum = 0;
  if (MINIMA) {
    if (PACKED) {
      integers_of(low, high, eight.x, eight.y, weight_eight());
    } else {
      low = four_bits(eight.x);
      high = four_bits(eight.x >> 16);
    }
    const vec2 line = line_of(scale_words, block, 0);
    scale = line.x;
    minimum = line.y;
  } else {
    scale = unpack(low, high, eight, scale_words, block);
  }
  if (FORMAT == FORMAT_F16) {
    const float power = power_below(weight_peak(row));
    low *= PEAK * inverse_power(power);
    high *= PEAK * inverse_power(power);
    scale = power / PEAK;
  }
}
#elif defined(WEFT_FP16)
// The largest magnitude that a block of a format of super-blocks can have.
float super_peak(uvec4 scale_words, uint block) {
  if (!MINIMA) {
    const vec2 halves = abs(halves_of_super(scale_words, block));
    return 128 * max(halves.x, halves.y);
  }
  float peak = 0;
  [[unroll]] for (uint h = 0; h < SCALES; ++h) {
    const vec2 line = line_of(scale_words, block, h);
    peak = max(peak, max(abs(line.y), abs(((1 << BITS) - 1) * line.x + line.y)));
  }
  return peak;
}
void unpack_to_store(out vec4 low, out vec4 high, out float scale, uvec4 eight, uvec4 scale_words, uint block, uint row) {
  scale = unpack(low, high, eight, scale_words, block);
  if (SUPER) {
    const float power = power_below(super_peak(scale_words, block)), factor = scale * inverse_power(power);
    low *= factor;
    high *= factor;
    scale = power;
  } else if (!PAIRS) {
    const float minimum = scale_of(scale_words.x >> 16), maximum = ((1 << BITS) - 1) * scale_of(scale_words.x) + minimum;
    scale = power_below(FORMAT == FORMAT_F16 ? weight_peak(row) : max(abs(minimum), abs(maximum)));
    low *= inverse_power(scale);
    high *= inverse_power(scale);
  }
}
#elif defined(WEFT_INT8)
// Bytes, and the block's scale and minimum.
void unpack_to_store(out uvec2 bytes, out vec2 line, uvec4 eight, uvec4 scale_words, uint block) {
  if (FORMAT == FORMAT_Q4)
    bytes = uvec2(four_bytes(eight.x & 0xffffu), four_bytes(eight.x >> 16));
  else
    bytes = PACKED ? bytes_of_eight(eight.x, eight.y, weight_eight()) : eight.xy;
  line = MINIMA ? line_of(scale_words, block, 0) : vec2(SUPER ? halves_of_super(scale_words, block).x : scale_of_pair(scale_words.x, block), 0);
}
#else
void unpack_to_store(out vec4 low, out vec4 high, uvec4 eight, uvec4 scale_words, uint block) {
  const float scale = unpack(low, high, eight, scale_words, block);
  low *= scale;
  high *= scale;
}
#endif
