// y = x W^T for many tokens on a GPU: a workgroup computes the tile of 64 rows and TOKENS tokens. Block of columns by block, its threads bring
// the weights, unpacked once, and the inputs to shared memory; then each multiplies four rows with TOKENS / 8 tokens, out of registers.
//
// WEFT_FP16 keeps and multiplies halves. A block of a row, and one of a token, is divided by a power of two that leaves its largest magnitude
// in [1, 2) (q8: by its scale, which leaves integers), and sums of halves go no further than 8 products before they are added up as floats:
// so nothing overflows, whatever the inputs, and what is rounded is each value to 11 bits.
//
// WEFT_INT8 (formats of whole numbers with one scale a block) rounds the inputs to 8 bits instead, 127 for the largest magnitude of a block, and adds up four products of integers
// by an instruction. These integer sums are exact.
// Variant of: matmul
// Variants: fp16 int8
// Optional: bias
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef WEFT_FP16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#ifdef WEFT_INT8
#include "lib/dot_of_bytes.glsl"
#endif
#if defined(WEFT_FP16) || defined(WEFT_INT8)
#define WEFT_PEAKS
#endif
#include "lib/eight.glsl"
#include "lib/tile_blocks.glsl"

#ifdef WEFT_PEAKS
const uint FEWEST_REGISTERS = 0;
#else
layout(constant_id = 6) const uint FEWEST_REGISTERS = 0;  // 1: while it multiplies, a thread holds no words of the next block
#endif

// A block of each row and token, in words of 16 bytes.
#ifdef WEFT_FP16
const uint WORDS = BLOCK / 8, STEP = 2;
#elif defined(WEFT_INT8)
const uint WORDS = BLOCK / 16, STEP = 2;
#else
const uint WORDS = BLOCK / 4, STEP = 1;
#endif
shared uvec4 weight_tile[TILE_ROWS * WORDS];
shared uvec4 input_tile[TOKENS * WORDS];
// Neighbouring threads read the same word of neighbouring rows (or tokens): swizzled so, no two of eight are in the same bank.
uint swizzled(uint row, uint word) { return row * WORDS + (word ^ row * WORDS / 8 % WORDS); }

#ifdef WEFT_PEAKS
// Factors of a block's sums.
shared float weight_scales[TILE_ROWS], input_scales[TOKENS];
float weight_scale(uint row) { return weight_scales[row]; }
float input_scale(uint token) { return input_scales[token]; }
#endif

#if defined(WEFT_FP16)
void store(uint block) {
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint row = weight_row() + i * WEIGHTS_APART;
    vec4 low, high;
    float scale;
    if (IN_SECOND)
      second_unpack_to_store(low, high, scale, loaded_weights[i], loaded_scales[i], block, row);
    else
      unpack_to_store(low, high, scale, loaded_weights[i], loaded_scales[i], block, row);
    weight_tile[swizzled(weight_row(), weight_eight()) + i * WEIGHTS_APART * WORDS] = uvec4(halves_of(low), halves_of(high));
    if (weight_eight() == 0) weight_scales[row] = scale;
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = input_token() + i * INPUTS_APART;
    const uint at = swizzled(input_token(), input_four() / 2) + i * INPUTS_APART * WORDS, half_at = input_four() % 2 * 2;
    const float scale = power_below(input_peak(token));
    const uvec2 x = halves_of(loaded_inputs[i] * inverse_power(scale));
    input_tile[at][half_at] = x.x;  // one by one: a thread must not touch the other half
    input_tile[at][half_at + 1] = x.y;
    if (input_four() == 0) input_scales[token] = scale;
  }
}

float product(uvec4 w[STEP], uvec4 x[STEP]) {
  f16vec2 sum = f16vec2(0);
  [[unroll]] for (uint s = 0; s < STEP; ++s)
    [[unroll]] for (uint c = 0; c < 4; ++c) sum = fma(unpackFloat2x16(w[s][c]), unpackFloat2x16(x[s][c]), sum);
  return float(sum.x) + float(sum.y);
}
#elif defined(WEFT_INT8)
shared float weight_minima[ANY_MINIMA ? TILE_ROWS : 1];

void store(uint block) {
  const uint eight = weight_eight();
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint row = weight_row() + i * WEIGHTS_APART;
    const uint at = swizzled(weight_row(), eight / 2) + i * WEIGHTS_APART * WORDS;
    uvec2 bytes;
    vec2 line;
    if (IN_SECOND)
      second_unpack_to_store(bytes, line, loaded_weights[i], loaded_scales[i], block);
    else
      unpack_to_store(bytes, line, loaded_weights[i], loaded_scales[i], block);
    weight_tile[at][eight % 2 * 2] = bytes.x;
    weight_tile[at][eight % 2 * 2 + 1] = bytes.y;
    if (eight > 0) continue;
    weight_scales[row] = line.x;
    if (ANY_MINIMA) weight_minima[row] = line.y;
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = input_token() + i * INPUTS_APART;
    const float peak = input_peak(token);
    const ivec4 x = ivec4(roundEven(loaded_inputs[i] * (peak > 1e-30 ? 127 / peak : 0)));
    input_tile[swizzled(input_token(), input_four() / 4) + i * INPUTS_APART * WORDS][input_four() % 4] = uint(x.x & 255 | (x.y & 255) << 8 | (x.z & 255) << 16 | x.w << 24);
    if (input_four() == 0) input_scales[token] = peak / 127;
  }
}

float product(uvec4 w[STEP], uvec4 x[STEP]) {
  int sum = 0;
  [[unroll]] for (uint s = 0; s < STEP; ++s)
    [[unroll]] for (uint c = 0; c < 4; ++c) sum += dot_of_bytes(w[s][c], x[s][c], 0);
  return float(sum);
}
#else
void store(uint block) {
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    vec4 low, high;
    if (IN_SECOND)
      second_unpack_to_store(low, high, loaded_weights[i], loaded_scales[i], block);
    else
      unpack_to_store(low, high, loaded_weights[i], loaded_scales[i], block);
    weight_tile[swizzled(weight_row(), weight_eight() * 2) + i * WEIGHTS_APART * WORDS] = floatBitsToUint(low);
    weight_tile[swizzled(weight_row(), weight_eight() * 2 + 1) + i * WEIGHTS_APART * WORDS] = floatBitsToUint(high);
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) input_tile[swizzled(input_token(), input_four()) + i * INPUTS_APART * WORDS] = floatBitsToUint(loaded_inputs[i]);
}

float product(uvec4 w[STEP], uvec4 x[STEP]) { return dot(uintBitsToFloat(w[0]), uintBitsToFloat(x[0])); }
float weight_scale(uint row) { return 1; }
float input_scale(uint token) { return 1; }
#endif

// A thread's four rows are 16 apart, and its tokens 8. Loops over the rows are unrolled by the preprocessor (lib/eight.glsl). PowerVR's
// compiler would spill sums that are vectors.
const uint THREAD_ROWS = 4, ROWS_APART = TILE_ROWS / THREAD_ROWS, TOKENS_APART = THREADS / ROWS_APART, THREAD_TOKENS = TOKENS / TOKENS_APART;
uint thread_row() { return gl_LocalInvocationIndex % ROWS_APART; }
uint thread_token() { return gl_LocalInvocationIndex / ROWS_APART; }
float sums[THREAD_ROWS][THREAD_TOKENS];

void multiply() {
#define SCALE(i) weight_scale(thread_row() + i * ROWS_APART)
  const float row_scales[THREAD_ROWS] = float[THREAD_ROWS](SCALE(0), SCALE(1), SCALE(2), SCALE(3));
#define LOAD(i) w[i][s] = weight_tile[swizzled(thread_row(), word + s) + i * ROWS_APART * WORDS];
#define ADD_PRODUCT(i) sums[i][t] += row_scales[i] * scale * product(w[i], x);
#define ADD_MINIMUM(i) sums[i][t] += weight_minima[thread_row() + i * ROWS_APART] * sum;
  [[dont_unroll]] for (uint word = 0; word < WORDS; word += STEP) {  // all at once would take more registers than there are
    uvec4 w[THREAD_ROWS][STEP];
    [[unroll]] for (uint s = 0; s < STEP; ++s) { FOUR(LOAD) }
    [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t) {
      const float scale = input_scale(thread_token() + t * TOKENS_APART);
      uvec4 x[STEP];
      [[unroll]] for (uint s = 0; s < STEP; ++s) x[s] = input_tile[swizzled(thread_token(), word + s) + t * TOKENS_APART * WORDS];
      FOUR(ADD_PRODUCT)
#ifdef WEFT_INT8
      if (ANY_MINIMA) {
        const float sum = scale * product(uvec4[STEP](uvec4(0x01010101u), uvec4(0x01010101u)), x);
        FOUR(ADD_MINIMUM)
      }
#endif
    }
  }
}

void write(uint row, float row_sums[THREAD_TOKENS], uint first_token, uint tokens) {
  if (row >= p.rows) return;
  const float shift = BIAS != 0 ? bias[p.row_base + row] : 0;
  [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t) {
    const uint token = thread_token() + t * TOKENS_APART;
    if (token >= tokens) continue;
    const uint at = (first_token + token) * p.out_stride + p.row_base + row;
    const float sum = row_sums[t] + shift;
    y[at] = ADD != 0 ? y[at] + sum : sum;
  }
}

// Grid: x tiles of the slice, y groups of TOKENS tokens.
void main() {
  const uint first_token = gl_WorkGroupID.y * TOKENS;
  const uint all_tokens = min(p.tokens, state.end - min(state.pos, state.end));
  if (first_token >= all_tokens) return;
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile = first_word(blocks);
  const uint tokens = min(all_tokens - first_token, TOKENS);
#define CLEAR(i) sums[i][t] = 0;
  [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t) { FOUR(CLEAR) }
  if (FEWEST_REGISTERS == 0) load(0, blocks, tile, first_token, tokens);
  note_peaks();
  barrier();
  for (uint block = 0; block < blocks; ++block) {
    if (FEWEST_REGISTERS != 0) load(block, blocks, tile, first_token, tokens);
    store(block);
    barrier();
    if (block + 1 < blocks && FEWEST_REGISTERS == 0) load(block + 1, blocks, tile, first_token, tokens);  // on its way while this one is multiplied
    multiply();
    note_peaks();
    barrier();
  }
#define WRITE(i) write(gl_WorkGroupID.x * TILE_ROWS + thread_row() + i * ROWS_APART, sums[i], first_token, tokens);
  FOUR(WRITE)
}
