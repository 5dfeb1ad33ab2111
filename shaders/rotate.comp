// Hidden states into the basis of a vocabulary table, or rows of it back (ops/basis.h): columns scaled and in another order, all but the leading
// ones turned by rounds of signs and Hadamard matrices.
#version 450
#extension GL_GOOGLE_include_directive : require
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

// Signs and a Hadamard matrix on every block of a round, or back. The five steps of the matrix add and subtract elements 1, 2, 4, 8 and 16
// apart; a lane takes some of the pairs.
void turn(uint row, uint round) {
  const uint rest = p.cols / 32 - 1;
  for (uint bit = 0; bit < 5; ++bit) {
    for (uint pair = gl_LocalInvocationID.x; pair < rest * 16; pair += 64) {
      const uint block = pair % rest, k = pair / rest, first = (k >> bit << (bit + 1)) | (k & ((1u << bit) - 1));
      const uint a = LEADING + ROTATED(round, rest, block, first), b = LEADING + ROTATED(round, rest, block, first + (1u << bit));
      float x = value_at(row + a), y = value_at(row + b);
      if (bit == 0 && p.inverse == 0) {
        x = with_sign(x, a, round);
        y = with_sign(y, b, round);
      }
      float sum = x + y, difference = x - y;
      if (bit == 4) {
        sum *= 0.17677669529663689;  // 1 / sqrt(32)
        difference *= 0.17677669529663689;
        if (p.inverse != 0) {
          sum = with_sign(sum, a, round);
          difference = with_sign(difference, b, round);
        }
      }
      set(row + a, sum);
      set(row + b, difference);
    }
    memoryBarrierBuffer();
    barrier();
  }
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
