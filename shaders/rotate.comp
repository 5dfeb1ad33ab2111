// Hidden states into the basis of a vocabulary table, or rows of it back (ops/basis.h): columns scaled and in another order, all but the leading
// ones turned by rounds of signs and Hadamard matrices.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Basis { uint basis[]; };
// (tokens, stride); forth: the plain rows, back: those in the basis, which are overwritten.
layout(std430, binding = 1) coherent buffer Input { float from[]; };
layout(std430, binding = 2) coherent buffer Output { float to[]; };
layout(push_constant) uniform Push { RotatePush p; };

float value_at(uint i) { return p.inverse != 0 ? from[i] : to[i]; }
void set(uint i, float value) {
  if (p.inverse != 0)
    from[i] = value;
  else
    to[i] = value;
}

// 1 or -1 as a column's bit says, in the bits of the float.
float with_sign(float value, uint column, uint round) {
  const uint bit = basis[BASIS_SIGNS(p.cols, round) + column / 32] >> (column % 32) & 1;
  return uintBitsToFloat(floatBitsToUint(value) ^ (bit << 31));
}

// Written out, for llvmpipe keeps an array in registers only where every index is a constant.
#define BUTTERFLIES(step)                                       \
  [[unroll]] for (uint i = 0; i < 16; ++i) {                    \
    const uint a = i / step * step * 2 + i % step, b = a + step; \
    const float sum = v[a] + v[b];                              \
    v[b] = v[a] - v[b];                                         \
    v[a] = sum;                                                 \
  }

// Signs and a Hadamard matrix on every block of a round, or back.
void turn(uint row, uint round) {
  const uint rest = p.cols / 32 - 1;
  for (uint c = gl_LocalInvocationID.x; c < rest; c += 64) {
    float v[32];
    [[unroll]] for (uint j = 0; j < 32; ++j) {
      const uint column = LEADING + ROTATED(round, rest, c, j);
      v[j] = p.inverse != 0 ? value_at(row + column) : with_sign(value_at(row + column), column, round);
    }
    BUTTERFLIES(1) BUTTERFLIES(2) BUTTERFLIES(4) BUTTERFLIES(8) BUTTERFLIES(16)
    [[unroll]] for (uint j = 0; j < 32; ++j) {
      const uint column = LEADING + ROTATED(round, rest, c, j);
      const float value = v[j] * 0.17677669529663689;
      set(row + column, p.inverse != 0 ? with_sign(value, column, round) : value);
    }
  }
  memoryBarrierBuffer();
  barrier();
}

float scale_of(uint column) { return uintBitsToFloat(basis[BASIS_SCALES(p.cols) + column]); }

// Grid: a workgroup a row.
void main() {
  const uint in_row = gl_WorkGroupID.x * p.in_stride, out_row = gl_WorkGroupID.x * p.out_stride;
  if (p.inverse != 0) {
    for (uint round = ROTATIONS; round-- > 0;) turn(in_row, round);
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += 64)
      if (basis[i] < p.width) to[out_row + basis[i]] = from[in_row + i] * scale_of(i);
    return;
  }
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += 64) to[out_row + i] = basis[i] < p.width ? from[in_row + basis[i]] * scale_of(i) : 0;
  memoryBarrierBuffer();
  barrier();
  for (uint round = 0; round < ROTATIONS; ++round) turn(out_row, round);
}
