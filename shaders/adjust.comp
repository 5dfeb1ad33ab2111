// Scores from logits: the repetition penalty of CTRL (Keskar et al. 2019, section 4.1), then the temperature.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Params { SampleParams params; };
layout(std430, binding = 1) readonly buffer Seen { uint seen[]; };       // bit i: token i is in the context
layout(std430, binding = 2) readonly buffer Logits { float logits[]; };  // (rows)
layout(std430, binding = 3) writeonly buffer Scores { float scores[]; };  // (rows)
layout(push_constant) uniform Push { AdjustPush p; };

void main() {
  const uint id = gl_GlobalInvocationID.x;
  if (id >= p.rows) return;
  float score = logits[id];
  if ((seen[id / 32] >> (id % 32) & 1) != 0)
    score = score > 0 ? score / params.repeat_penalty : score * params.repeat_penalty;
  if (params.inverse_temperature > 0) score *= params.inverse_temperature;
  scores[id] = score;
}
