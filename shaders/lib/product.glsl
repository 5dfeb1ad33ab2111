// Shared by all products of matrix rows: the lanes, the weights' words and the inputs. A lane owns ROW_TILES rows, so no sum
// crosses lanes, and no subgroup size is assumed but by WEFT_TEXEL; with SPLIT > 1 the columns are shared by SPLIT lanes, summed through shared
// memory in a fixed order. The including shader declares its outputs at bindings 2 and up.
//
// All lanes need the same inputs. A GPU reads them once for all; a software driver reads storage buffers once per lane, with a branch each.
// WEFT_TEXEL is for llvmpipe: weights and inputs are texels. It loads four words for eight lanes in some 30 instructions, and each of the eight
// lanes of a subgroup loads an eighth of the inputs, which they then share: llvmpipe makes one instruction of subgroupShuffle.
#ifndef WEFT_PRODUCT
#define WEFT_PRODUCT
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/bytes.glsl"
#ifdef WEFT_SUBGROUP
#define WEFT_EXACT_HALVES  // of the drivers that this variant is for (gpu/plan.cpp)
#endif
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 1;
layout(constant_id = 2) const uint SPLIT = 1;
layout(constant_id = 3) const uint ROW_TILES = 1;
#if defined(WEFT_TEXEL) && defined(WEFT_SMALL_GROUPS)
layout(local_size_x = 8, local_size_y_id = 2) in;  // a subgroup: so that few rows are shared evenly by a CPU's cores
const uint LANE_ROWS = TILE_ROWS;
#elif defined(WEFT_LANE_ROWS)
layout(constant_id = 10) const uint LANE_ROWS = TILE_ROWS;  // lanes of a part: 8, 16, 32 or 64
layout(local_size_x_id = 10, local_size_y_id = 2) in;
#else
layout(local_size_x = TILE_ROWS, local_size_y_id = 2) in;
const uint LANE_ROWS = TILE_ROWS;
#endif
#define WORKGROUP_ROWS (gl_WorkGroupSize.x * ROW_TILES)

// An invocation's `part` says which part of the columns it has, its `lane` which rows. With WEFT_SUBGROUP parts have TILE_ROWS lanes and
// the pipeline has full subgroups, whose size divides TILE_ROWS: then a subgroup's lanes have one part, and Vulkan gives this index of an invocation. Compilers take
// gl_LocalInvocationID.y for divergent and load the inputs once for each lane; the broadcast, which changes no value, tells them not to.
#ifdef WEFT_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
uint invocation() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }
uint lane() { return invocation() % LANE_ROWS; }
uint part() { return subgroupBroadcastFirst(invocation() / LANE_ROWS); }
#else
uint invocation() { return gl_LocalInvocationIndex; }
uint lane() { return gl_LocalInvocationID.x; }
uint part() { return gl_LocalInvocationID.y; }
#endif

#ifdef WEFT_TEXEL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(binding = 0) uniform usamplerBuffer words;
layout(binding = 1) uniform usamplerBuffer inputs;  // (tokens, stride / 4)
uvec4 word_at(uint i) { return texelFetch(words, int(i)); }
uint small_word_at(uint i) { return texelFetch(words, int(i / 4))[i % 4]; }
uvec4 input_at(uint i) { return texelFetch(inputs, int(i)); }
#else
layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer WordsAsSmallWords { uint small_words[]; };
uvec4 word_at(uint i) { return words[i]; }             // 16 bytes
uint small_word_at(uint i) { return small_words[i]; }  // 4
layout(std430, binding = 1) readonly buffer Inputs { uvec4 inputs[]; };  // (tokens, stride / 4)
uvec4 input_at(uint i) { return inputs[i]; }
#endif
// Half of a word.
#ifdef WEFT_TEXEL
uvec2 half_word_at(uint i, uint half_) {
  const uvec4 word = word_at(i);
  return half_ == 0 ? word.xy : word.zw;
}
#else
layout(std430, binding = 0) readonly buffer WordsAsHalfWords { uvec2 half_words[]; };
uvec2 half_word_at(uint i, uint half_) { return half_words[i * 2 + half_]; }
#endif

vec4 floats_at(uint i) { return uintBitsToFloat(input_at(i)); }  // of the inputs

// Eight words of the inputs, the same for every lane. Every lane of the workgroup must be there, as all that shares a subgroup's values.
#ifdef WEFT_TEXEL
struct EightInputs {
  uvec4 share;  // the lane's
};
EightInputs eight_inputs(uint first) { return EightInputs(input_at(first + gl_SubgroupInvocationID)); }
uvec4 input_of(EightInputs x, uint j) { return subgroupShuffle(x.share, j); }  // j: a constant
#else
struct EightInputs {
  uint first;
};
EightInputs eight_inputs(uint first) { return EightInputs(first); }
uvec4 input_of(EightInputs x, uint j) { return input_at(x.first + j); }
#endif
vec4 floats_of(EightInputs x, uint j) { return uintBitsToFloat(input_of(x, j)); }

// Row i of the lane's, counted from the first of the workgroup's WORKGROUP_ROWS: those of eight neighbouring lanes are neighbours, and a lane's are eight apart.
uint lane_row_of(uint i, uint tiles) { return lane() / 8 * 8 * tiles + i * 8 + lane() % 8; }
uint lane_row(uint i) { return lane_row_of(i, ROW_TILES); }

const uint SUMS = TOKENS * ROW_TILES;  // of a lane: token t with its row i at t * ROW_TILES + i
shared float partial[SPLIT > 1 ? (SPLIT - 1) * SUMS * LANE_ROWS : 1];

void leave_sums(float sums[SUMS], uint part) {
  [[unroll]] for (uint s = 0; s < SUMS; ++s) partial[((part - 1) * SUMS + s) * LANE_ROWS + lane()] = sums[s];
}
// Adds the sums of parts `first`, first + step and so on.
void add_parts(inout float sums[SUMS], uint first, uint step) {
  for (uint p = first; p < SPLIT; p += step)
    [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] += partial[((p - 1) * SUMS + s) * LANE_ROWS + lane()];
}

// Adds the sums of the other parts to those of part 0; of more than four parts, those of four first. Every lane of the workgroup calls it.
void join_parts(inout float sums[SUMS]) {
  if (SPLIT == 1) return;
  const uint own = part();
  if (own > 0) leave_sums(sums, own);
  barrier();
  if (SPLIT > 4) {
    if (own < 4) add_parts(sums, own + 4, 4);
    if (own > 0 && own < 4) leave_sums(sums, own);
    barrier();
  }
  if (own > 0) return;
  for (uint p = 1; p < min(SPLIT, 4); ++p)
    [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] += partial[((p - 1) * SUMS + s) * LANE_ROWS + lane()];
}
#endif
