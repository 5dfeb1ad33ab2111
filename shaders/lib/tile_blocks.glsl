// Loads of a product by tiles of TILE_ROWS rows: for each block of columns, the threads of a workgroup load weights (lib/tile_weights.glsl) and the
// inputs of TOKENS tokens. WEFT_PEAKS: also finds the largest magnitudes of a block.
#include "abi.h"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 16;
layout(constant_id = 2) const uint BIAS = 0;  // 1: there are biases
layout(constant_id = 3) const uint ADD = 0;   // 1: y += x W^T

const uint THREADS = TILE_THREADS;
layout(local_size_x = THREADS) in;
#include "lib/tile_weights.glsl"

layout(std430, binding = 1) readonly buffer Inputs { vec4 inputs[]; };  // (pass tokens, in_stride / 4)
layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

// Four columns of some tokens.
const uint FOURS = BLOCK / 4, INPUTS = TOKENS * FOURS / THREADS, INPUTS_APART = THREADS / FOURS;
uvec4 loaded_weights[WEIGHTS];
uvec4 loaded_scales[WEIGHTS];
vec4 loaded_inputs[INPUTS];
uint input_token() { return gl_LocalInvocationIndex / FOURS; }
uint input_four() { return gl_LocalInvocationIndex % FOURS; }

void load(uint block, uint blocks, uint tile, uint first_token, uint tokens) {
  load_tile(loaded_weights, loaded_scales, block, blocks, tile);
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
    const uint token = first_token + min(input_token() + i * INPUTS_APART, tokens - 1);
    loaded_inputs[i] = inputs[token * (p.in_stride / 4) + block * FOURS + input_four()];
  }
}

#ifdef WEFT_PEAKS
shared vec4 input_peaks[TOKENS * 2];
void note_peaks() {
  note_tile_peaks(loaded_weights);
  [[unroll]] for (uint i = 0; i < INPUTS; ++i) input_peaks[input_token() * 2 + input_four() / 4 + i * INPUTS_APART * 2][input_four() % 4] = peak_of(loaded_inputs[i]);
}
float input_peak(uint token) { return max(peak_of(input_peaks[token * 2]), peak_of(input_peaks[token * 2 + 1])); }
#else
void note_peaks() {}
#endif
