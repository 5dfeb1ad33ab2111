// y = x W^T for many tokens on a GPU with cooperative matrices (GL_KHR_cooperative_matrix): a workgroup computes the tile of 64 rows and TOKENS
// tokens, block of columns by block. Subgroups multiply by instructions for matrices of SIDE x SIDE halves, whose sums are floats.
//
// Products are as exact as those of floats. Inputs are pairs of halves (halves.comp): 22 bits. Weights are whole numbers or halves (f16)
// anyway, and are multiplied with their scales after the sum over a block (of formats with two scales a block: over half of it). A block of f16 weights is divided by a power of two that leaves its
// largest magnitude in [PEAK, 2 PEAK), since some devices take halves smaller than 2^-14 for zero.
// Variant of: matmul
// Interface of: matmul_tiled
// Needs: GL_KHR_cooperative_matrix
// Optional: bias
// Full subgroups: matmul_matrix
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "abi.h"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 16;
layout(constant_id = 2) const uint BIAS = 0;       // 1: there are biases
layout(constant_id = 3) const uint ADD = 0;        // 1: y += x W^T
layout(constant_id = 6) const uint SIDE = 16;      // of the device's matrices: 8 or 16
layout(constant_id = 7) const uint SUBGROUPS = 4;  // of the workgroup
const uint THREADS = TILE_THREADS;
layout(local_size_x = THREADS) in;
const float PEAK = 4096;
#define WEFT_PEAKS
#define WEFT_MATRICES
#include "lib/tile_weights.glsl"

layout(std430, binding = 1) readonly buffer Inputs { uvec4 inputs[]; };  // (pass tokens, in_stride / 4) of halves, as abi.h has them
layout(std430, binding = 1) readonly buffer InputsAsNotes { float notes[]; };
layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

// A block of each row and token, in words of eight halves; one word is unused, so that rows begin in other banks. A token's high halves come first.
const uint WORDS = BLOCK / 8, APART = WORDS + 1, INPUT_WORDS = 2 * WORDS, INPUTS_APART = INPUT_WORDS + 1;
shared uvec4 weight_tile[TILE_ROWS * APART];
shared uvec4 input_tile[TOKENS * INPUTS_APART];
// Factors of a block's sums, or of those of its halves, by row. Minima are factors of the sums of a block's inputs.
shared vec4 weight_scales[MOST_SCALES * TILE_ROWS / 4];
shared vec4 weight_minima[ANY_MINIMA ? TILE_ROWS / 4 : 1], input_sums[ANY_MINIMA ? TOKENS / 4 : 1];
shared float input_scales[TOKENS];  // of all blocks

// A thread's words of the next block's inputs.
const uint INPUTS = TOKENS * INPUT_WORDS / THREADS, INPUT_STEP = THREADS / INPUT_WORDS;
uint input_token() { return gl_LocalInvocationIndex / INPUT_WORDS; }
uint input_word() { return gl_LocalInvocationIndex % INPUT_WORDS; }

void load_inputs(out uvec4 loaded[INPUTS], uint block, uint first_token, uint tokens) {
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = first_token + min(input_token() + i * INPUT_STEP, tokens - 1);
    loaded[i] = inputs[token * (p.in_stride / 4) + block * INPUT_WORDS + input_word()];
  }
}
// Sum of a block of one of the tokens' inputs, if weights have minima.
float load_sum(uint block, uint blocks, uint first_token, uint tokens) {
  if (!ANY_MINIMA || gl_LocalInvocationIndex >= TOKENS) return 0;
  return notes[(first_token + min(gl_LocalInvocationIndex, tokens - 1)) * p.in_stride + blocks * BLOCK + block];
}

void store(uvec4 weights[WEIGHTS], uvec4 scale_words[WEIGHTS], uvec4 loaded[INPUTS], float sum, uint block) {
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint row = weight_row() + i * WEIGHTS_APART;
    vec4 low, high;
    float scale, minimum;
    if (IN_SECOND)
      second_unpack_to_store(low, high, scale, minimum, weights[i], scale_words[i], block, row);
    else
      unpack_to_store(low, high, scale, minimum, weights[i], scale_words[i], block, row);
    weight_tile[row * APART + weight_eight()] = uvec4(halves_of(low), halves_of(high));
    const uint of_scale = EIGHTS / MOST_SCALES;
    if (weight_eight() % of_scale > 0) continue;
    weight_scales[(weight_eight() / of_scale * TILE_ROWS + row) / 4][row % 4] = scale;
    if (ANY_MINIMA) weight_minima[row / 4][row % 4] = minimum;
  }
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) input_tile[(input_token() + i * INPUT_STEP) * INPUTS_APART + input_word()] = loaded[i];
  if (ANY_MINIMA && gl_LocalInvocationIndex < TOKENS) input_sums[gl_LocalInvocationIndex / 4][gl_LocalInvocationIndex % 4] = sum;
}

#define Weights coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA>  // rows x columns
#define Values coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseB>   // columns x tokens
#define Sums coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>  // rows x tokens

// A subgroup has ROW_MATRICES x TOKEN_MATRICES matrices of the tile: two of tokens for four of rows, where there are as many, because the
// inputs' take twice the loads. Never more parts of rows than there are matrices.
const uint WIDE_PARTS = TOKENS >= 2 * 2 * SIDE ? TOKENS / (2 * SIDE) : 1;
const uint LIKELY_PARTS = WIDE_PARTS < SUBGROUPS ? WIDE_PARTS : SUBGROUPS;
const uint LEAST_PARTS = (SUBGROUPS * SIDE + TILE_ROWS - 1) / TILE_ROWS;
const uint TOKEN_PARTS = LIKELY_PARTS > LEAST_PARTS ? LIKELY_PARTS : LEAST_PARTS;
const uint ROW_MATRICES = TILE_ROWS / SIDE * TOKEN_PARTS / SUBGROUPS, TOKEN_MATRICES = TOKENS / SIDE / TOKEN_PARTS;
uint first_row() { return gl_SubgroupID / TOKEN_PARTS * ROW_MATRICES * SIDE; }
uint first_token() { return gl_SubgroupID % TOKEN_PARTS * TOKEN_MATRICES * SIDE; }
const uint STEPS = BLOCK / SIDE, SCALE_STEPS = STEPS / MOST_SCALES;  // matrices of a block's columns, and of those that share a scale

shared vec4 results[SUBGROUPS * SIDE * SIDE / 4];  // a matrix of each subgroup, token after token

// Grid: x tiles of the slice, y groups of TOKENS tokens.
void main() {
  const uint group_token = gl_WorkGroupID.y * TOKENS;
  const uint all_tokens = min(p.tokens, state.end - min(state.pos, state.end));
  if (group_token >= all_tokens) return;
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile = first_word(blocks);
  const uint tokens = min(all_tokens - group_token, TOKENS), rows_at = first_row(), tokens_at = first_token();
  Sums sums[ROW_MATRICES * TOKEN_MATRICES];
  [[unroll]] for (uint i = 0; i < ROW_MATRICES * TOKEN_MATRICES; ++i) sums[i] = Sums(0);
  for (uint t = gl_LocalInvocationIndex; t < TOKENS; t += THREADS)
    input_scales[t] = notes[(group_token + min(t, tokens - 1)) * p.in_stride + blocks * (BLOCK + 1)] * (1 / HALVES_PEAK);
  uvec4 words_of_weights[WEIGHTS], words_of_inputs[INPUTS];
  uvec4 scale_words[WEIGHTS];
  load_tile(words_of_weights, scale_words, 0, blocks, tile);
  load_inputs(words_of_inputs, 0, group_token, tokens);
  float input_sum = load_sum(0, blocks, group_token, tokens);
  note_tile_peaks(words_of_weights);
  barrier();
  for (uint block = 0; block < blocks; ++block) {
    store(words_of_weights, scale_words, words_of_inputs, input_sum, block);
    barrier();
    const uint coming = min(block + 1, blocks - 1);  // on its way while this one is multiplied
    load_tile(words_of_weights, scale_words, coming, blocks, tile);
    load_inputs(words_of_inputs, coming, group_token, tokens);
    input_sum = load_sum(coming, blocks, group_token, tokens);
    Values high[TOKEN_MATRICES * STEPS], low[TOKEN_MATRICES * STEPS];
    Sums of_inputs[TOKEN_MATRICES];
    [[unroll]] for (uint t = 0; t < TOKEN_MATRICES; ++t) {
      const uint token = tokens_at + t * SIDE;
      [[unroll]] for (uint s = 0; s < STEPS; ++s) {
        coopMatLoad(high[t * STEPS + s], input_tile, token * INPUTS_APART + s * SIDE / 8, INPUTS_APART, gl_CooperativeMatrixLayoutColumnMajor);
        coopMatLoad(low[t * STEPS + s], input_tile, token * INPUTS_APART + WORDS + s * SIDE / 8, INPUTS_APART, gl_CooperativeMatrixLayoutColumnMajor);
      }
      // Rows (or columns) that are 0 apart: the same for all rows (or tokens).
      if (ANY_MINIMA) coopMatLoad(of_inputs[t], input_sums, token / 4, 0, gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint r = 0; r < ROW_MATRICES; ++r) {
      const uint row = rows_at + r * SIDE;
      Weights weights[STEPS];
      [[unroll]] for (uint s = 0; s < STEPS; ++s) coopMatLoad(weights[s], weight_tile, row * APART + s * SIDE / 8, APART, gl_CooperativeMatrixLayoutRowMajor);
      [[unroll]] for (uint h = 0; h < MOST_SCALES; ++h) {
        Sums scales, minima;
        coopMatLoad(scales, weight_scales, (h * TILE_ROWS + row) / 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
        if (ANY_MINIMA && h == 0) coopMatLoad(minima, weight_minima, row / 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint t = 0; t < TOKEN_MATRICES; ++t) {
          Sums sum = Sums(0);
          [[unroll]] for (uint s = h * SCALE_STEPS; s < (h + 1) * SCALE_STEPS; ++s) {
            sum = coopMatMulAdd(weights[s], low[t * STEPS + s], sum);
            sum = coopMatMulAdd(weights[s], high[t * STEPS + s], sum);
          }
          sums[r * TOKEN_MATRICES + t] = sums[r * TOKEN_MATRICES + t] + scales * sum;
          if (ANY_MINIMA && h == 0) sums[r * TOKEN_MATRICES + t] = sums[r * TOKEN_MATRICES + t] + minima * of_inputs[t];
        }
      }
    }
    note_tile_peaks(words_of_weights);
    barrier();
  }
  [[unroll]] for (uint r = 0; r < ROW_MATRICES; ++r)
    [[unroll]] for (uint t = 0; t < TOKEN_MATRICES; ++t) {
      coopMatStore(sums[r * TOKEN_MATRICES + t], results, gl_SubgroupID * SIDE * SIDE / 4, SIDE / 4, gl_CooperativeMatrixLayoutColumnMajor);
      subgroupBarrier();
      for (uint i = gl_SubgroupInvocationID; i < SIDE * SIDE; i += gl_SubgroupSize) {
        const uint row = gl_WorkGroupID.x * TILE_ROWS + rows_at + r * SIDE + i % SIDE, token = tokens_at + t * SIDE + i / SIDE;
        if (row >= p.rows || token >= tokens) continue;
        const uint at = (group_token + token) * p.out_stride + p.row_base + row;
        const float sum = results[(gl_SubgroupID * SIDE * SIDE + i) / 4][i % 4] * input_scales[token] + (BIAS != 0 ? bias[p.row_base + row] : 0);
        y[at] = ADD != 0 ? y[at] + sum : sum;
      }
      subgroupBarrier();
    }
}
