// Loads of a product by tiles, the same for all ways to multiply: for each block of columns, the threads of a workgroup load the weights of
// TILE_ROWS rows, still packed, and the inputs of TOKENS tokens. WEFT_PEAKS: also finds the largest magnitudes of a block.
#include "abi.h"
#include "lib/bytes.glsl"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 16;
layout(constant_id = 2) const uint BIAS = 0;  // 1: there are biases
layout(constant_id = 3) const uint ADD = 0;   // 1: y += x W^T
#include "lib/tiles.glsl"

const uint THREADS = TILE_THREADS;
layout(local_size_x = THREADS) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer WordPairs { uvec2 word_pairs[]; };
layout(std430, binding = 0) readonly buffer SmallWords { uint small_words[]; };
layout(std430, binding = 1) readonly buffer Inputs { vec4 inputs[]; };  // (pass tokens, in_stride / 4)
layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

// A thread's loads of the next block: eight columns of two rows, still packed, and four columns of some tokens.
const uint EIGHTS = BLOCK / 8, FOURS = BLOCK / 4;
const uint WEIGHTS = TILE_ROWS * EIGHTS / THREADS, INPUTS = TOKENS * FOURS / THREADS;
uvec4 loaded_weights[WEIGHTS];
uint loaded_scales[WEIGHTS];
vec4 loaded_inputs[INPUTS];
// Distances between a thread's rows and tokens; constants, so that values that depend on i alone take no registers.
const uint WEIGHTS_APART = THREADS / EIGHTS, INPUTS_APART = THREADS / FOURS;
uint weight_row() { return gl_LocalInvocationIndex / EIGHTS; }
uint weight_eight() { return gl_LocalInvocationIndex % EIGHTS; }
uint input_token() { return gl_LocalInvocationIndex / FOURS; }
uint input_four() { return gl_LocalInvocationIndex % FOURS; }

void load(uint block, uint blocks, uint tile, uint first_token, uint tokens) {
  const uint count = BLOCK_WORDS * blocks, eight = weight_eight(), scale_words = (blocks + RUN - 1) / RUN;
  const uint word = tile / 4 + IN_TILE(weight_row(), block * BLOCK_WORDS + eight * BLOCK_WORDS / 4, count);
  const uint scales = tile + TILE_ROWS * 4 * count + IN_TILE(weight_row(), block / RUN, scale_words);
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint at = word + i * WEIGHTS_APART * count;  // WEIGHTS_APART is GROUP_ROWS
    if (FORMAT == FORMAT_F16) loaded_weights[i] = words[at];
    if (FORMAT == FORMAT_Q8) loaded_weights[i].xy = word_pairs[at * 2 + eight % 2];
    if (FORMAT == FORMAT_Q4) loaded_weights[i].x = small_words[at * 4 + eight];
    if (FORMAT != FORMAT_F16) loaded_scales[i] = small_words[scales + i * WEIGHTS_APART * scale_words];
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = first_token + min(input_token() + i * INPUTS_APART, tokens - 1);
    loaded_inputs[i] = inputs[token * (p.in_stride / 4) + block * FOURS + input_four()];
  }
}

// The lowest four numbers of 4 bits.
vec4 four_bits(uint word) { return vec4((uvec4(word) >> uvec4(0, 4, 8, 12)) & 15u); }

// Unpacks eight weights, and returns the factor that they must still be multiplied with.
float unpack(out vec4 low, out vec4 high, uint i, uint block) {
  const uvec4 eight = loaded_weights[i];
  const uint scales = loaded_scales[i];
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
// The largest magnitudes of what each thread has loaded.
shared vec4 weight_peaks[FORMAT == FORMAT_F16 ? TILE_ROWS : 1], input_peaks[TOKENS * 2];

float peak_of(vec4 v) { return max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))); }
void note_peaks() {
  if (FORMAT == FORMAT_F16)
    [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
      vec4 low, high;
      unpack(low, high, i, 0);
      weight_peaks[weight_row() + i * WEIGHTS_APART][weight_eight()] = max(peak_of(low), peak_of(high));
    }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) input_peaks[input_token() * 2 + input_four() / 4 + i * INPUTS_APART * 2][input_four() % 4] = peak_of(loaded_inputs[i]);
}
float input_peak(uint token) { return max(peak_of(input_peaks[token * 2]), peak_of(input_peaks[token * 2 + 1])); }
float weight_peak(uint row) { return peak_of(weight_peaks[row]); }
#else
void note_peaks() {}
#endif
