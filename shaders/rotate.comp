// Hidden states into the basis of a vocabulary table, or rows of it back (ops/basis.h): columns scaled and in another order, all but the leading
// ones turned by rounds of signs and Hadamard matrices. It may do an RMSNorm of the states first (norm.comp), and begin one of the rows that come
// back, as matmul.comp does: a dispatch and its barrier cost more.
// Optional: basis state weight normed
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint BACK = 0;  // 1: rows come back from the basis
// 1: what goes there is the states' norm, which is written to `normed`, too; what comes back is written as rows of a norm that is begun, too.
layout(constant_id = 2) const uint NORM = 0;
layout(constant_id = 3) const uint TURNS = 1;  // 0: of plain rows a norm is begun, to the bit as if they had come back
// 1: the table has no basis. Columns keep their order and their scale; TURNS is 0 then.
layout(constant_id = 5) const uint PLAIN = 0;
// Stored columns, if a row and the signs of all rounds fit in shared memory; 0: a row is turned where it lies.
layout(constant_id = 4) const uint SHARED_COLS = 0;

layout(std430, binding = 0) readonly buffer Basis { uint basis[]; };
layout(std430, binding = 1) buffer Plain { float plain[]; };               // (tokens, stride), of width
layout(std430, binding = 2) coherent buffer Rotated { float rotated[]; };  // (tokens, stride), of cols; may be overwritten
layout(std430, binding = 3) readonly buffer State { StepState state; };
layout(std430, binding = 4) readonly buffer Weight { float weight[]; };   // (width) of the norm
layout(std430, binding = 5) writeonly buffer Normed { float normed[]; };  // (tokens, stride)
layout(std430, binding = 5) writeonly buffer NormedAsBegun { float begun[]; };  // (tokens, begun_stride)
layout(push_constant) uniform Push { RotatePush p; };

// Blocks lie one word apart, so that lanes with neighbouring blocks use different banks.
shared float shared_row[SHARED_COLS > 0 ? SHARED_COLS + SHARED_COLS / 32 : 1];
shared uint shared_signs[SHARED_COLS > 0 ? ROTATIONS * (SHARED_COLS / 32) : 1];

float turned_at(uint row, uint i) { return SHARED_COLS > 0 ? shared_row[i + i / 32] : rotated[row + i]; }
void set_turned(uint row, uint i, float value) {
  if (SHARED_COLS > 0)
    shared_row[i + i / 32] = value;
  else
    rotated[row + i] = value;
}
void wait_for_row() {
  if (SHARED_COLS == 0) memoryBarrierBuffer();
  barrier();
}

// The value times 1 or -1 as a column's bit says, or the value itself.
float with_sign(float value, uint column, uint round, bool is_signed) {
  const uint word = SHARED_COLS > 0 ? shared_signs[round * (SHARED_COLS / 32) + column / 32] : basis[BASIS_SIGNS(p.cols, round) + column / 32];
  const uint bit = word >> (column % 32) & uint(is_signed);
  return uintBitsToFloat(floatBitsToUint(value) ^ (bit << 31));
}

// Sums and differences of elements 1 and 2 apart.
vec4 hadamard(vec4 v) {
  v = vec4(v.xz + v.yw, v.xz - v.yw).xzyw;
  return vec4(v.xy + v.zw, v.xy - v.zw);
}

// Signs and a Hadamard matrix on every block of a round, or back. The matrix's five steps add and subtract elements 1, 2, 4, 8 and 16 apart: a lane
// takes eight neighbours through three of them, and then four elements 8 apart through the others.
void turn(uint row, uint round) {
  const uint rest = p.cols / 32 - 1;
  for (uint part = gl_LocalInvocationID.x; part < rest * 4; part += THREADS) {
    const uint block = part % rest, first = part / rest * 8;
    uint columns[8];
    float v[8];
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      columns[j] = LEADING + ROTATED(round, rest, block, first + j);
      v[j] = with_sign(turned_at(row, columns[j]), columns[j], round, BACK == 0);
    }
    const vec4 low = hadamard(vec4(v[0], v[1], v[2], v[3])), high = hadamard(vec4(v[4], v[5], v[6], v[7]));
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      set_turned(row, columns[j], low[j] + high[j]);
      set_turned(row, columns[j + 4], low[j] - high[j]);
    }
  }
  wait_for_row();
  for (uint part = gl_LocalInvocationID.x; part < rest * 8; part += THREADS) {
    const uint block = part % rest, first = part / rest;
    uint columns[4];
    vec4 v;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      columns[j] = LEADING + ROTATED(round, rest, block, first + j * 8);
      v[j] = turned_at(row, columns[j]);
    }
    v = hadamard(v) * 0.17677669529663689;  // 1 / sqrt(32)
    [[unroll]] for (uint j = 0; j < 4; ++j) set_turned(row, columns[j], with_sign(v[j], columns[j], round, BACK != 0));
  }
  wait_for_row();
}

uint column_of(uint i) { return PLAIN != 0 ? i : basis[i]; }
float scale_of(uint i) { return PLAIN != 0 ? 1 : uintBitsToFloat(basis[BASIS_SCALES(p.cols) + i]); }

// Grid: a workgroup a row.
void main() {
  const uint row = gl_WorkGroupID.x * p.stride, from = BACK == 0 && NORM != 0 && p.last_only != 0 ? (max(state.end - state.pos, 1) - 1) * p.stride : row;
  if (SHARED_COLS > 0 && TURNS != 0)
    for (uint i = gl_LocalInvocationID.x; i < ROTATIONS * (SHARED_COLS / 32); i += THREADS) shared_signs[i] = basis[BASIS_SIGNS(p.cols, 0) + i];
  if (BACK == 0) {
    float squares = 0;
    if (NORM != 0)
      for (uint i = gl_LocalInvocationID.x; i < p.width; i += THREADS) squares += plain[from + i] * plain[from + i];
    const float factor = NORM != 0 ? inversesqrt(workgroup_sum(squares) / float(p.width) + p.epsilon) : 1;
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
      const uint column = column_of(i);
      float value = column < p.width ? plain[from + column] : 0;
      if (NORM != 0 && column < p.width) {
        value = value * factor * weight[column];
        normed[row + column] = value;
      }
      set_turned(row, i, value * scale_of(i));
    }
    wait_for_row();
  }
  if (BACK != 0 && SHARED_COLS > 0 && TURNS != 0) {
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) set_turned(row, i, rotated[row + i]);
    wait_for_row();
  }
  if (TURNS != 0)
    for (uint i = 0; i < ROTATIONS; ++i) turn(row, BACK != 0 ? ROTATIONS - 1 - i : i);
  if (BACK == 0) {
    if (SHARED_COLS > 0)
      for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) rotated[row + i] = turned_at(row, i);
    return;
  }
  float squares = 0;
  const uint begun_row = gl_WorkGroupID.x * p.begun_stride;
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    const uint column = column_of(i);
    if (column < p.width) {
      const float value = TURNS != 0 ? turned_at(row, i) * scale_of(i) : plain[row + column];
      if (TURNS != 0) plain[row + column] = value;
      if (NORM != 0) {
        begun[begun_row + column] = value * weight[column];
        squares += value * value;
      }
    }
  }
  if (NORM == 0) return;
  const float sum = workgroup_sum(squares);
  // Products read four, and may have left more.
  if (gl_LocalInvocationID.x < 4) begun[begun_row + NORM_SUMS_AT(p.width) + gl_LocalInvocationID.x] = gl_LocalInvocationID.x == 0 ? sum : 0;
}
