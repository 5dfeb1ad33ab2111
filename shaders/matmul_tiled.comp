// y = x W^T for many tokens on a GPU: a workgroup computes the tile of 64 rows and TOKENS tokens. Block of columns by block, its threads bring
// the weights, unpacked once, and the inputs to shared memory; then each multiplies four rows with TOKENS / 8 tokens, out of registers.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/bytes.glsl"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 16;
layout(constant_id = 2) const uint BIAS = 0;  // 1: there are biases
layout(constant_id = 3) const uint ADD = 0;   // 1: y += x W^T
#include "lib/tiles.glsl"

const uint THREADS = 128;
layout(local_size_x = THREADS) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer WordPairs { uvec2 word_pairs[]; };
layout(std430, binding = 0) readonly buffer SmallWords { uint small_words[]; };
layout(std430, binding = 1) readonly buffer Inputs { vec4 inputs[]; };  // (pass tokens, in_stride / 4)
layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

// A block of each row and token: eight fours of columns.
const uint FOURS = BLOCK / 4;
shared vec4 weight_tile[TILE_ROWS * FOURS];
shared vec4 input_tile[TOKENS * FOURS];
// Neighbouring threads read the same four of neighbouring rows (or tokens): so turned, no two of eight are in the same banks.
uint slot(uint row, uint four) { return row * FOURS + (four ^ row % FOURS); }

// What a thread has loaded of the next block: eight columns of two rows, as they lie, and four of some tokens.
const uint WEIGHTS = TILE_ROWS * FOURS / 2 / THREADS, INPUTS = TOKENS * FOURS / THREADS;
uvec4 loaded_weights[WEIGHTS];
uint loaded_notes[WEIGHTS];
vec4 loaded_inputs[INPUTS];
uint weight_row(uint i) { return (gl_LocalInvocationIndex + i * THREADS) / 4; }
uint weight_eight() { return gl_LocalInvocationIndex % 4; }
uint input_token(uint i) { return (gl_LocalInvocationIndex + i * THREADS) / FOURS; }
uint input_four() { return gl_LocalInvocationIndex % FOURS; }

void load(uint block, uint blocks, uint tile, uint first_token, uint tokens) {
  const uint count = BLOCK_WORDS * blocks, eight = weight_eight();
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint row = weight_row(i);
    const uint word = tile / 4 + IN_TILE(row, block * BLOCK_WORDS + eight * BLOCK_WORDS / 4, count);
    if (FORMAT == FORMAT_F16) loaded_weights[i] = words[word];
    if (FORMAT == FORMAT_Q8) loaded_weights[i].xy = word_pairs[word * 2 + eight % 2];
    if (FORMAT == FORMAT_Q4) loaded_weights[i].x = small_words[word * 4 + eight];
    if (FORMAT != FORMAT_F16) loaded_notes[i] = small_words[tile + TILE_ROWS * 4 * count + IN_TILE(row, block / RUN, (blocks + RUN - 1) / RUN)];
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = first_token + min(input_token(i), tokens - 1);
    loaded_inputs[i] = inputs[token * (p.in_stride / 4) + block * FOURS + input_four()];
  }
}

void unpack(out vec4 low, out vec4 high, uvec4 eight, uint note, uint block) {
  if (FORMAT == FORMAT_F16) {
    low = vec4(unpackHalf2x16(eight.x), unpackHalf2x16(eight.y));
    high = vec4(unpackHalf2x16(eight.z), unpackHalf2x16(eight.w));
  } else if (FORMAT == FORMAT_Q8) {
    const float scale = scale_of(block % 2 == 0 ? note : note >> 16);
    low = scale * signed_bytes(eight.x);
    high = scale * signed_bytes(eight.y);
  } else {
    const float scale = scale_of(note), minimum = scale_of(note >> 16);
    low = scale * vec4((eight.xxxx >> uvec4(0, 4, 8, 12)) & 15u) + minimum;
    high = scale * vec4((eight.xxxx >> uvec4(16, 20, 24, 28)) & 15u) + minimum;
  }
}

void store(uint block) {
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    vec4 low, high;
    unpack(low, high, loaded_weights[i], loaded_notes[i], block);
    weight_tile[slot(weight_row(i), weight_eight() * 2)] = low;
    weight_tile[slot(weight_row(i), weight_eight() * 2 + 1)] = high;
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) input_tile[slot(input_token(i), input_four())] = loaded_inputs[i];
}

// A thread's rows are 16 apart, and so are its tokens by 8.
const uint ROWS_APART = 16, TOKENS_APART = THREADS / ROWS_APART;
const uint THREAD_ROWS = TILE_ROWS / ROWS_APART, THREAD_TOKENS = TOKENS / TOKENS_APART;
uint thread_row() { return gl_LocalInvocationIndex % ROWS_APART; }
uint thread_token() { return gl_LocalInvocationIndex / ROWS_APART; }
float sums[THREAD_TOKENS][THREAD_ROWS];

void multiply() {
  for (uint four = 0; four < FOURS; ++four) {
    vec4 w[THREAD_ROWS];
    [[unroll]] for (uint i = 0; i < THREAD_ROWS; ++i) w[i] = weight_tile[slot(thread_row(), four) + i * ROWS_APART * FOURS];
    [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t) {
      const vec4 x = input_tile[slot(thread_token(), four) + t * TOKENS_APART * FOURS];
      [[unroll]] for (uint i = 0; i < THREAD_ROWS; ++i) sums[t][i] += dot(w[i], x);
    }
  }
}

// Grid: x tiles of the slice, y groups of TOKENS tokens.
void main() {
  const uint first_token = gl_WorkGroupID.y * TOKENS;
  const uint all_tokens = min(p.tokens, state.end - min(state.pos, state.end));
  if (first_token >= all_tokens) return;
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile = gl_WorkGroupID.x * tile_words(blocks);
  const uint tokens = min(all_tokens - first_token, TOKENS);
  [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t)
    [[unroll]] for (uint i = 0; i < THREAD_ROWS; ++i) sums[t][i] = 0;
  load(0, blocks, tile, first_token, tokens);
  for (uint block = 0; block < blocks; ++block) {
    store(block);
    barrier();
    if (block + 1 < blocks) load(block + 1, blocks, tile, first_token, tokens);  // on its way while this one is multiplied
    multiply();
    barrier();
  }
  [[unroll]] for (uint i = 0; i < THREAD_ROWS; ++i) {
    const uint row = gl_WorkGroupID.x * TILE_ROWS + thread_row() + i * ROWS_APART;
    if (row >= p.rows) continue;
    const float shift = BIAS != 0 ? bias[p.row_base + row] : 0;
    [[unroll]] for (uint t = 0; t < THREAD_TOKENS; ++t) {
      const uint token = thread_token() + t * TOKENS_APART;
      if (token >= tokens) continue;
      const uint at = (first_token + token) * p.out_stride + p.row_base + row;
      const float sum = sums[t][i] + shift;
      y[at] = ADD != 0 ? y[at] + sum : sum;
    }
  }
}
