// A sum in place: of the logits and their biases.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Input { float x[]; };  // (count)
layout(std430, binding = 1) buffer Output { float y[]; };          // (count)
layout(push_constant) uniform Push { AddPush p; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < p.count) y[i] += x[i];
}
