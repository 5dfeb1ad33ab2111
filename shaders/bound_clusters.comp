// Scores of all rows of an adaptive softmax, with noise if that decides, and the best that a row can have of each cluster that has not been
// computed. The logits of its rows are upper bounds (mix). A score is monotone in the logit, so their scores are bounds too.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/finite.glsl"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer TokenFlags { uint token_flags[]; };  // TOKEN_FLAGS
layout(std430, binding = 3) readonly buffer Logits { float logits[]; };          // (rows)
layout(std430, binding = 4) readonly buffer Bounds { uint bounds[]; };           // (softmaxes, 2) first row and end
layout(std430, binding = 5) writeonly buffer Scores { float scores[]; };         // (rows)
layout(std430, binding = 6) buffer Clusters { ClusterState clusters; };
layout(push_constant) uniform Push { ClustersPush p; };
#include "lib/clusters.glsl"
#include "lib/gumbel.glsl"
#include "lib/narrowed.glsl"
#include "lib/score.glsl"

shared uint best[MAX_SOFTMAXES];

// Grid: CLUSTER_ROWS rows a workgroup.
void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (lane < MAX_SOFTMAXES) best[lane] = 0;
  barrier();
  for (uint start = 0; start < CLUSTER_ROWS; start += 256) {
    const uint first = gl_WorkGroupID.x * CLUSTER_ROWS + start + lane * 4;
    if (first >= p.rows) break;
    uvec4 words = uvec4(0);
    if (params.cut_noise != 0) words = noise_words(first / 4, state.end);
    for (uint row = first; row < min(first + 4, p.rows); ++row) {
      float score = score_of(logits[row], row, p.rows);
      const bool known = is_finite(score);
      if (known && params.cut_noise != 0) score += gumbel(words[row - first]);
      scores[row] = score;
      const uint softmax = softmax_of(row);
      // A share that is not a number may be anything; -infinity cannot win.
      if (is_unread(softmax) && floatBitsToUint(score) != 0xff800000u) atomicMax(best[softmax], key_of(known ? score : 3.4e38));
    }
  }
  barrier();
  if (lane < MAX_SOFTMAXES && best[lane] != 0) atomicMax(clusters.bounds[lane], best[lane]);
}
