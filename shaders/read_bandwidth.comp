// Reads a buffer and does next to nothing with it: what the device's memory gives at best. The measure other kernels are held to.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(local_size_x = 64) in;

#ifdef WEFT_TEXEL
layout(binding = 0) uniform usamplerBuffer words;
uvec4 word_at(uint i) { return texelFetch(words, int(i)); }
#else
layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
uvec4 word_at(uint i) { return words[i]; }
#endif
layout(std430, binding = 1) writeonly buffer Output { uint sums[]; };  // (workgroups)

#define WORDS_PER_LANE 32

// Grid: 64 * WORDS_PER_LANE words to a workgroup, all of them there. No branch and no loop around the reads: software drivers are slower
// inside control flow.
void main() {
  // Eight lanes side by side, and on through memory.
  const uint first = gl_WorkGroupID.x * 64 * WORDS_PER_LANE + IN_GROUPS(8, gl_LocalInvocationID.x, 0, WORDS_PER_LANE);
  uvec4 sum = uvec4(0);
  [[unroll]] for (uint i = 0; i < WORDS_PER_LANE; ++i) sum ^= word_at(first + i * 8);
  const uint folded = sum.x ^ sum.y ^ sum.z ^ sum.w;
  // Practically never true: keeps the reads alive without a write each.
  if (folded == 0x5eed5eedu) sums[gl_WorkGroupID.x] = folded;
}
