// Rows of floats as pairs of halves, for products by cooperative matrices (matmul_matrix.comp). The first half of a pair has 11 bits of x, the
// second one 11 bits of the rest. A row is divided by a power of two that leaves its largest magnitude in [PEAK, 2 PEAK): nothing overflows,
// whatever the inputs, and what is smaller than 2^-14, which some devices take for zero, is less than a float's rounding of the peak.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/to_halves.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { vec4 x[]; };         // (pass tokens, in_stride / 4)
layout(std430, binding = 2) writeonly buffer Output { uvec4 halves[]; };  // (pass tokens, out_stride / 4), as abi.h has it
layout(std430, binding = 2) writeonly buffer HalvesAsNotes { float notes[]; };
layout(push_constant) uniform Push { HalvesPush p; };

const uint EIGHTS = BLOCK / 8;
shared float sums[THREADS];

float peak_of(vec4 v) { return max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w))); }

// One workgroup a token.
void main() {
  const uint token = gl_WorkGroupID.x, blocks = (p.cols + BLOCK - 1) / BLOCK;
  if (token > 0 && state.pos + token >= state.end) return;
  const uint first = token * p.in_stride / 4, first_out = token * p.out_stride / 4, sums_at = token * p.out_stride + blocks * BLOCK;
  float peak = 0;
  for (uint i = gl_LocalInvocationID.x; i < blocks * (BLOCK / 4); i += THREADS) peak = max(peak, peak_of(x[first + i]));
  const float power = power_below(workgroup_max(peak));
  // HALVES_PEAK / power, by exponents: as a product of two factors it might overflow.
  const float factor = uintBitsToFloat(floatBitsToUint(HALVES_PEAK) + floatBitsToUint(1.0) - floatBitsToUint(power));
  // A lane has eight columns, so that neighbours load and store neighbouring words.
  const uint lane = gl_LocalInvocationID.x, eights = blocks * EIGHTS;
  for (uint begin = 0; begin < eights; begin += THREADS) {
    const uint i = begin + lane, block = i / EIGHTS;
    if (i < eights) {
      const vec4 a = x[first + i * 2] * factor, b = x[first + i * 2 + 1] * factor;
      // Cut to 11 bits: compilers take a float of a half of x for x.
      const vec4 high_a = uintBitsToFloat(floatBitsToUint(a) & 0xffffe000u), high_b = uintBitsToFloat(floatBitsToUint(b) & 0xffffe000u);
      const uint at = first_out + block * 2 * EIGHTS + i % EIGHTS;
      halves[at] = uvec4(halves_of(high_a), halves_of(high_b));
      halves[at + EIGHTS] = uvec4(halves_of(a - high_a), halves_of(b - high_b));
      sums[lane] = dot(a + b, vec4(1));
    }
    barrier();  // the sums are written
    if (i < eights && i % EIGHTS == 0) notes[sums_at + block] = (sums[lane] + sums[lane + 1]) + (sums[lane + 2] + sums[lane + 3]);
    barrier();  // and read
  }
  if (lane == 0) notes[sums_at + blocks] = power;
}
