// Over the eight lanes of a subgroup, where kernels are WEFT_TEXEL (lib/product.glsl): llvmpipe makes one instruction of a shuffle, and a loop
// of subgroupAdd.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define LANES 8

float lanes_max(float value) {
  [[unroll]] for (uint i = 1; i < LANES; i *= 2) value = max(value, subgroupShuffle(value, gl_SubgroupInvocationID ^ i));
  return value;
}
float lanes_sum(float value) {
  [[unroll]] for (uint i = 1; i < LANES; i *= 2) value += subgroupShuffle(value, gl_SubgroupInvocationID ^ i);
  return value;
}
