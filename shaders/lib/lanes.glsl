// Over the eight lanes of a subgroup, where kernels are WEFT_TEXEL (lib/product.glsl): llvmpipe makes one instruction of a shuffle, and a loop
// of subgroupAdd.
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define LANES 8

// Written out: llvmpipe unrolls no loop whose variable is multiplied, nor any around it, and then writes their arrays lane by lane.
float lanes_max(float value) {
  value = max(value, subgroupShuffle(value, gl_SubgroupInvocationID ^ 1));
  value = max(value, subgroupShuffle(value, gl_SubgroupInvocationID ^ 2));
  return max(value, subgroupShuffle(value, gl_SubgroupInvocationID ^ 4));
}
float lanes_sum(float value) {
  value += subgroupShuffle(value, gl_SubgroupInvocationID ^ 1);
  value += subgroupShuffle(value, gl_SubgroupInvocationID ^ 2);
  return value + subgroupShuffle(value, gl_SubgroupInvocationID ^ 4);
}
