// The logits of listed rows in the order of the table: those of all other rows are -infinity. For parts of a table, which are joined with others'.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Lists { uint lists[]; };
layout(std430, binding = 2) readonly buffer Listed { float listed[]; };  // in the order of the list
layout(std430, binding = 3) writeonly buffer Logits { float logits[]; };  // (rows), filled with -infinity before
layout(push_constant) uniform Push { ScatterRowsPush p; };

// Grid: x places of the list.
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < state.head.exact_count) logits[lists[LIST_IDS(p.rows) + i]] = listed[i];
}
