// Learned position embedding (Radford et al. 2019, "Language models are unsupervised multitask learners"): x += table[position].
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Table { float table[]; };  // (positions, cols)
layout(std430, binding = 2) buffer Output { float x[]; };              // (pass tokens, stride)
layout(push_constant) uniform Push { AddPositionsPush p; };

void main() {
  const uint token = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x, position = state.pos + token;
  if (i >= p.cols || position >= min(state.end, p.positions)) return;
  x[token * p.stride + i] += table[position * p.cols + i];
}
