// Several softmaxes over the vocabulary become one distribution: of each row ln(sum over the softmaxes that have it of prior * probability).
// The priors are a softmax themselves. Mixtures (Yang et al. 2018) have all rows in all softmaxes. Adaptive ones (Grave et al. 2017) have a
// row in one; the prior of the first is then the sum over its own rows.
//
// Some softmaxes of an adaptive one may not have been computed. Their rows get an upper bound: the prior, as if the row had all of its softmax.
// log_sum is at least each logit, everything is `precise`, and sums are rounded monotonically, so the bound holds to the last bit.
// Optional: clusters
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint FIRST_BY_SUM = 0;  // 1: the first softmax has no prior logit but its sum
layout(constant_id = 1) const uint UNREAD = 0;        // clusters that have not been computed: 0: none; 1: their bounds; 2: -infinity

layout(std430, binding = 0) readonly buffer Logits { float logits[]; };  // (softmaxes, stride)
layout(std430, binding = 1) readonly buffer Bounds { uint bounds[]; };   // (softmaxes, 2) first row and end
layout(std430, binding = 2) readonly buffer Sums { float sums[]; };      // (softmaxes) of log_sum
layout(std430, binding = 3) readonly buffer Priors { float priors[]; };  // (softmaxes), or one less
layout(std430, binding = 4) writeonly buffer Output { float mixed[]; };  // (rows)
layout(std430, binding = 5) readonly buffer Clusters { ClusterState clusters; };
layout(push_constant) uniform Push { MixPush p; };

float prior(uint k) { return FIRST_BY_SUM == 0 ? priors[k] : k == 0 ? sums[0] : priors[k - 1]; }
bool has(uint k, uint row) { return row >= bounds[2 * k] && row < bounds[2 * k + 1]; }
bool unread(uint k) { return UNREAD != 0 && k > 0 && (clusters.read >> k & 1) == 0; }
float part(uint k, uint row) {
  precise float sum = prior(k);
  if (!unread(k)) sum += logits[k * p.stride + row] - sums[k];
  return sum;
}

void main() {
  const uint row = gl_GlobalInvocationID.x;
  if (row >= p.rows) return;
  float prior_peak = -3.4e38, peak = -3.4e38;
  for (uint k = 0; k < p.count; ++k) {
    prior_peak = max(prior_peak, prior(k));
    if (!has(k, row)) continue;
    if (UNREAD == 2 && unread(k)) {
      mixed[row] = uintBitsToFloat(0xff800000u);
      return;
    }
    peak = max(peak, part(k, row));
  }
  precise float prior_sum = 0, sum = 0;
  for (uint k = 0; k < p.count; ++k) {
    prior_sum += exp(prior(k) - prior_peak);
    if (has(k, row)) sum += exp(part(k, row) - peak);
  }
  precise const float result = peak - prior_peak + (log(sum) - log(prior_sum));
  mixed[row] = result;
}
