// Soft tokens: the rows of the pass's tokens that have a row of their own in place of one of the vocabulary table; or rows that are added to
// these tokens after a layer.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint ADD = 0;  // 1: the rows are added to what is there
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer History { uint history[]; };
layout(std430, binding = 2) readonly buffer Rows { float rows[]; };  // (soft tokens, stride)
layout(std430, binding = 3) buffer Output { float x[]; };  // (pass tokens, stride)
layout(push_constant) uniform Push { InsertRowsPush p; };

void main() {
  const uint token = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (i >= p.cols || state.pos + token >= state.end) return;
  const uint id = history[state.pos + token], row = id - SOFT_ID;
  if (id < SOFT_ID || row >= p.rows) return;
  const uint at = token * p.stride + i;
  x[at] = ADD != 0 ? x[at] + rows[row * p.stride + i] : rows[row * p.stride + i];
}
