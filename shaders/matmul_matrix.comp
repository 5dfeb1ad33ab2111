// y = x W^T for many tokens on a GPU with cooperative matrices (GL_KHR_cooperative_matrix): tiles as those of matmul_tiled, which subgroups
// multiply by instructions for matrices of SIDE x SIDE halves, whose sums are floats.
//
// Products are as exact as those of floats. Weights are whole numbers (q8, q4) or halves (f16) anyway, and are multiplied with their scales
// after the sum over a block. An input is two halves, the second one what the first one leaves: 22 bits. Blocks of inputs, and of f16 weights,
// are divided by a power of two that leaves the largest magnitude in [PEAK, 2 PEAK): nothing overflows, whatever the inputs, and what is
// smaller than 2^-14, which some devices take for zero, is less than a float's rounding of the peak.
// Variant of: matmul
// Interface of: matmul_tiled
// Needs: GL_KHR_cooperative_matrix
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEFT_PEAKS
#include "lib/tile_blocks.glsl"
#include "lib/to_halves.glsl"

layout(constant_id = 4) const uint SIDE = 16;      // of the device's matrices: 8 or 16
layout(constant_id = 5) const uint SUBGROUPS = 4;  // of the workgroup; SUBGROUPS * SIDE * SIDE <= 1024

const float PEAK = 4096;

// A block of each row and token, in words of eight halves; one word is unused, so that rows begin in other banks.
const uint WORDS = BLOCK / 8, APART = WORDS + 1;
shared uvec4 weight_tile[TILE_ROWS * APART];
shared uvec4 high_tile[TOKENS * APART], low_tile[TOKENS * APART];
// What a block's sums are to be multiplied with. Minima (q4) are multiplied with the sums of a block's inputs.
shared vec4 weight_scales[TILE_ROWS / 4], input_scales[TOKENS / 4];
shared vec4 weight_minima[FORMAT == FORMAT_Q4 ? TILE_ROWS / 4 : 1], input_sums[FORMAT == FORMAT_Q4 ? TOKENS / 4 : 1];
shared vec4 partial_sums[FORMAT == FORMAT_Q4 ? TOKENS * 2 : 1];  // of what each thread has loaded

void note_block() {
  note_peaks();
  if (FORMAT == FORMAT_Q4)
    [[unroll]] for (uint i = 0; i < INPUTS; ++i)
      partial_sums[input_token() * 2 + input_four() / 4 + i * INPUTS_APART * 2][input_four() % 4] = dot(loaded_inputs[i], vec4(1));
}

void store_weights(uint block) {
  [[unroll]] for (uint i = 0; i < WEIGHTS; ++i) {
    const uint row = weight_row() + i * WEIGHTS_APART;
    vec4 low, high;
    float scale;
    if (FORMAT == FORMAT_Q4) {
      low = four_bits(loaded_weights[i].x);
      high = four_bits(loaded_weights[i].x >> 16);
      scale = scale_of(loaded_scales[i]);
    } else {
      scale = unpack(low, high, i, block);
    }
    if (FORMAT == FORMAT_F16) {
      const float power = power_below(weight_peak(row));
      low *= PEAK * inverse_power(power);
      high *= PEAK * inverse_power(power);
      scale = power / PEAK;
    }
    weight_tile[row * APART + weight_eight()] = uvec4(halves_of(low), halves_of(high));
    if (weight_eight() > 0) continue;
    weight_scales[row / 4][row % 4] = scale;
    if (FORMAT == FORMAT_Q4) weight_minima[row / 4][row % 4] = scale_of(loaded_scales[i] >> 16);
  }
}

void store_inputs() {
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = input_token() + i * INPUTS_APART;
    const float power = power_below(input_peak(token));
    const vec4 x = loaded_inputs[i] * inverse_power(power) * PEAK;
    const vec4 high = uintBitsToFloat(floatBitsToUint(x) & 0xffffe000u);  // 11 bits; compilers take a float of a half of x for x
    const uvec2 first = halves_of(high), second = halves_of(x - high);
    const uint at = token * APART + input_four() / 2, half_at = input_four() % 2 * 2;
    high_tile[at][half_at] = first.x;  // one by one: a thread must not touch the other half
    high_tile[at][half_at + 1] = first.y;
    low_tile[at][half_at] = second.x;
    low_tile[at][half_at + 1] = second.y;
    if (input_four() > 0) continue;
    input_scales[token / 4][token % 4] = power / PEAK;
    if (FORMAT == FORMAT_Q4) input_sums[token / 4][token % 4] = dot(partial_sums[token * 2] + partial_sums[token * 2 + 1], vec4(1));
  }
}

#define Weights coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA>  // rows x columns
#define Values coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseB>   // columns x tokens
#define Sums coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>  // rows x tokens

// A subgroup has ROW_MATRICES x TOKEN_MATRICES matrices of the tile. Two parts of tokens where there are more subgroups than matrices of
// rows, or where each part is left two matrices wide: then fewer are loaded.
const uint WIDE_PARTS = TOKENS >= 4 * SIDE ? 2 : 1, LIKELY_PARTS = SUBGROUPS >= 4 ? WIDE_PARTS : 1;
const uint TOKEN_PARTS = SUBGROUPS * SIDE > TILE_ROWS ? 2 : LIKELY_PARTS;
const uint ROW_MATRICES = TILE_ROWS / SIDE * TOKEN_PARTS / SUBGROUPS, TOKEN_MATRICES = TOKENS / SIDE / TOKEN_PARTS;
uint first_row() { return gl_SubgroupID / TOKEN_PARTS * ROW_MATRICES * SIDE; }
uint first_token() { return gl_SubgroupID % TOKEN_PARTS * TOKEN_MATRICES * SIDE; }
Sums sums[ROW_MATRICES * TOKEN_MATRICES];

const uint STEPS = BLOCK / SIDE;  // matrices of a block's columns

void multiply() {
  [[unroll]] for (uint t = 0; t < TOKEN_MATRICES; ++t) {
    const uint token = first_token() + t * SIDE;
    Values high[STEPS], low[STEPS];
    [[unroll]] for (uint s = 0; s < STEPS; ++s) {
      coopMatLoad(high[s], high_tile, token * APART + s * SIDE / 8, APART, gl_CooperativeMatrixLayoutColumnMajor);
      coopMatLoad(low[s], low_tile, token * APART + s * SIDE / 8, APART, gl_CooperativeMatrixLayoutColumnMajor);
    }
    // Rows (or columns) that are 0 apart: the same for all rows (or tokens).
    Sums of_tokens, inputs;
    coopMatLoad(of_tokens, input_scales, token / 4, 0, gl_CooperativeMatrixLayoutRowMajor);
    if (FORMAT == FORMAT_Q4) coopMatLoad(inputs, input_sums, token / 4, 0, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint r = 0; r < ROW_MATRICES; ++r) {
      const uint row = first_row() + r * SIDE;
      Sums of_rows, sum = Sums(0);
      coopMatLoad(of_rows, weight_scales, row / 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
      [[unroll]] for (uint s = 0; s < STEPS; ++s) {
        Weights weights;
        coopMatLoad(weights, weight_tile, row * APART + s * SIDE / 8, APART, gl_CooperativeMatrixLayoutRowMajor);
        sum = coopMatMulAdd(weights, low[s], sum);
        sum = coopMatMulAdd(weights, high[s], sum);
      }
      const uint at = r * TOKEN_MATRICES + t;
      sums[at] = sums[at] + of_tokens * (of_rows * sum);  // scales alone may be too small for a product
      if (FORMAT == FORMAT_Q4) {
        Sums minima;
        coopMatLoad(minima, weight_minima, row / 4, 0, gl_CooperativeMatrixLayoutColumnMajor);
        sums[at] = sums[at] + minima * inputs;
      }
    }
  }
}

shared vec4 results[SUBGROUPS * SIDE * SIDE / 4];  // a matrix of each subgroup, token after token

// All subgroups write the matrices with the same r and t.
void write(uint group_token, uint tokens) {
  [[unroll]] for (uint r = 0; r < ROW_MATRICES; ++r)
    [[unroll]] for (uint t = 0; t < TOKEN_MATRICES; ++t) {
      coopMatStore(sums[r * TOKEN_MATRICES + t], results, gl_SubgroupID * SIDE * SIDE / 4, SIDE / 4, gl_CooperativeMatrixLayoutColumnMajor);
      barrier();
      for (uint i = gl_SubgroupInvocationID; i < SIDE * SIDE; i += gl_SubgroupSize) {
        const uint row = gl_WorkGroupID.x * TILE_ROWS + first_row() + r * SIDE + i % SIDE;
        const uint token = first_token() + t * SIDE + i / SIDE;
        if (row >= p.rows || token >= tokens) continue;
        const uint at = (group_token + token) * p.out_stride + p.row_base + row;
        const float sum = results[(gl_SubgroupID * SIDE * SIDE + i) / 4][i % 4] + (BIAS != 0 ? bias[p.row_base + row] : 0);
        y[at] = ADD != 0 ? y[at] + sum : sum;
      }
      barrier();
    }
}

// Grid: x tiles of the slice, y groups of TOKENS tokens.
void main() {
  const uint group_token = gl_WorkGroupID.y * TOKENS;
  const uint all_tokens = min(p.tokens, state.end - min(state.pos, state.end));
  if (group_token >= all_tokens) return;
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile = gl_WorkGroupID.x * tile_words(blocks);
  const uint tokens = min(all_tokens - group_token, TOKENS);
  [[unroll]] for (uint i = 0; i < ROW_MATRICES * TOKEN_MATRICES; ++i) sums[i] = Sums(0);
  load(0, blocks, tile, group_token, tokens);
  note_block();
  barrier();
  for (uint block = 0; block < blocks; ++block) {
    store_weights(block);
    store_inputs();
    barrier();
    if (block + 1 < blocks) load(block + 1, blocks, tile, group_token, tokens);  // on its way while this one is multiplied
    multiply();
    note_block();
    barrier();
  }
  write(group_token, tokens);
}
