// Dot products of matrix rows with TOKENS inputs. A lane owns one row of each of ROW_TILES tiles, so no sum crosses lanes and no subgroup
// size is assumed; with SPLIT > 1 the columns are shared by SPLIT lanes, summed through shared memory in a fixed order.
// The layout of tiles is in abi.h. The including shader declares its outputs at bindings 2 and up.
//
// All lanes need the same inputs. A GPU reads them once for all; llvmpipe reads storage buffers once per lane, with a branch each, and
// uniform buffers without: WEFT_UNIFORM is the variant for it. Its binding reaches UNIFORM_BYTES, so the operation binds
// the window of inputs that a group of TOKENS needs.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 1;
layout(constant_id = 2) const uint SPLIT = 1;
layout(constant_id = 3) const uint ROW_TILES = 1;
layout(local_size_x = TILE_ROWS, local_size_y_id = 2) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer Scales { uint scales[]; };
#ifdef WEFT_UNIFORM
layout(std140, binding = 1) uniform Inputs { vec4 inputs[UNIFORM_BYTES / 16]; };  // (TOKENS, stride / 4)
#else
layout(std430, binding = 1) readonly buffer Inputs { vec4 inputs[]; };  // (tokens, stride / 4)
#endif

const uint SUMS = TOKENS * ROW_TILES;  // of a lane: token t with its row of tile i at t * ROW_TILES + i
shared float partial[SPLIT > 1 ? (SPLIT - 1) * SUMS * TILE_ROWS : 1];

vec4 signed_bytes(uint word) {
  const int w = int(word);
  return vec4((w << 24) >> 24, (w << 16) >> 24, (w << 8) >> 24, w >> 24);
}

// 32-bit words of a tile.
uint tile_words(uint blocks) {
  return FORMAT == FORMAT_Q8 ? TILE_ROWS * (blocks * 8 + (blocks + 1) / 2) : TILE_ROWS * blocks * 16;
}

// A block of a row, and the scale its products are to be multiplied with.
float load_block(out vec4 weights[8], uint tile, uint row, uint block, uint blocks) {
  if (FORMAT == FORMAT_Q8) {
    const uint word = tile / 4 + IN_TILE(row, block * 2, blocks * 2);
    const uvec4 low = words[word], high = words[word + GROUP_ROWS];
    weights[0] = signed_bytes(low.x);
    weights[1] = signed_bytes(low.y);
    weights[2] = signed_bytes(low.z);
    weights[3] = signed_bytes(low.w);
    weights[4] = signed_bytes(high.x);
    weights[5] = signed_bytes(high.y);
    weights[6] = signed_bytes(high.z);
    weights[7] = signed_bytes(high.w);
    const uint pair = scales[tile + blocks * 8 * TILE_ROWS + IN_TILE(row, block / 2, (blocks + 1) / 2)];
    return scale_of(block % 2 == 0 ? pair : pair >> 16);
  }
  const uint word = tile / 4 + IN_TILE(row, block * 4, blocks * 4);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uvec4 halves = words[word + i * GROUP_ROWS];
    weights[i * 2] = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
    weights[i * 2 + 1] = vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w));
  }
  return 1;
}

// sums: products of the lane's rows with the bound inputs first_token + t. Valid in lanes of part 0 (gl_LocalInvocationID.y == 0); every
// lane of the workgroup must call it. What it gives for rows behind `rows` means nothing.
void rows_dot(out float sums[SUMS], uint cols, uint rows, uint in_stride, uint first_token) {
  const uint last_tile = (rows - 1) / TILE_ROWS;
  const uint row = gl_LocalInvocationID.x, part = gl_LocalInvocationID.y;
  const uint blocks = (cols + BLOCK - 1) / BLOCK, words_of_tile = tile_words(blocks);
  const uint stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  for (uint block = part; block < blocks; block += SPLIT) {
    vec4 weights[ROW_TILES][8];
    float scale[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      // A tile too many reads the last one again: cheaper than a branch around the loads.
      const uint tile = min(gl_WorkGroupID.x * ROW_TILES + i, last_tile);
      scale[i] = load_block(weights[i], tile * words_of_tile, row, block, blocks);
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      const uint x = (first_token + t) * stride + block * (BLOCK / 4);
      float products[ROW_TILES];
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = 0;
#define ADD(j)                                                                                              \
  {                                                                                                         \
    const vec4 v = inputs[x + j];                                                                             \
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] += dot(weights[i][j], v);                   \
  }
      ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[t * ROW_TILES + i] += scale[i] * products[i];
    }
  }
  if (SPLIT > 1) {
    if (part > 0)
      [[unroll]] for (uint s = 0; s < SUMS; ++s) partial[((part - 1) * SUMS + s) * TILE_ROWS + row] = sums[s];
    barrier();
    if (part == 0)
      for (uint p = 0; p + 1 < SPLIT; ++p)
        [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] += partial[(p * SUMS + s) * TILE_ROWS + row];
  }
}
