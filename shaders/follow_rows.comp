// Moves rows of a pass that checks a tree: those that were chosen come to lie one after the other, by their depth, as those of a chain do. A
// chosen row is no less than its depth, and less than the next chosen one, so nothing that is still to be moved is overwritten.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) buffer Rows { uint rows[]; };  // (TREE_ROWS, stride)
layout(push_constant) uniform Push { FollowRowsPush p; };

// Grid: x the words of a row.
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= p.words) return;
  for (uint depth = p.first; depth <= min(p.last, PATH_LENGTH(state.path)); ++depth) {
    const uint row = PATH_ROW(state.path, depth);
    if (row != depth) rows[depth * p.stride + i] = rows[row * p.stride + i];
  }
}
