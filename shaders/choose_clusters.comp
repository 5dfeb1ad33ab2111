// Chooses the clusters of an adaptive softmax to compute next: those that can still win. The choice of a token needs the rows whose score
// reaches the cut_rank-th best less cut_margin (abi.h, SampleParams). If cut_rank computed rows have a better score than that limit lets a
// cluster's best row have, no row of the cluster is needed.
//
// The first choice for a token takes the cluster with the greatest bound alone, because its rows may rule out the others. The second one takes all
// that are left.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/finite.glsl"

layout(local_size_x = 64) in;

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(std430, binding = 3) readonly buffer Bounds { uint bounds[]; };   // (softmaxes, 2) first row and end
layout(std430, binding = 4) coherent buffer Clusters { ClusterState clusters; };
layout(push_constant) uniform Push { ClustersPush p; };
#include "lib/clusters.glsl"
#include "lib/narrowed.glsl"

shared uint better[MAX_SOFTMAXES];
shared uint arrived;

void choose() {
  const bool all_ = params.cut_rank == 0 || params.cut_mass != 0;  // top-p and typical-p need the mass of every row
  uint wanted = 0, first = 0, greatest = 0;
  for (uint k = 1; k < p.count; ++k) {
    if (!is_unread(k) || (!all_ && (clusters.bounds[k] == 0 || clusters.better[k] >= params.cut_rank))) continue;
    wanted |= 1u << k;
    if (first == 0 || clusters.bounds[k] > greatest) {
      first = 1u << k;
      greatest = clusters.bounds[k];
    }
  }
  if (p.again == 0 && !all_) wanted = first;
  uint rows = p.again == 0 ? bounds[1] : 0;
  for (uint k = 1; k < p.count; ++k) {
    const bool taken = (wanted >> k & 1) != 0;
    const uint end = bounds[2 * k + 1], count = end - bounds[2 * k] / TILE_ROWS * TILE_ROWS;  // from the tile's first row on
    const uint slices = (count + p.slice_rows - 1) / p.slice_rows, last = count - (slices - 1) * p.slice_rows;
    clusters.groups[2 * k] = Indirect(taken ? (p.slice_rows + p.rows_per_group - 1) / p.rows_per_group : 0, 1, 1);
    clusters.groups[2 * k + 1] = Indirect(taken ? (last + p.rows_per_group - 1) / p.rows_per_group : 0, 1, 1);
    if (taken) rows += count;
    clusters.bounds[k] = clusters.better[k] = 0;
  }
  clusters.read |= wanted;
  clusters.fresh = wanted;
  clusters.done = 0;
  state.head.exact_count = rows + (p.again == 0 ? 0 : state.head.exact_count);
}

// Grid: CLUSTER_ROWS rows a workgroup. The one that finishes last chooses.
void main() {
  const uint lane = gl_LocalInvocationID.x;
  if (lane < MAX_SOFTMAXES) better[lane] = 0;
  barrier();
  float limits[CLUSTER_ROWS / 64];  // of the lane's computed rows: the score less the margin
  for (uint i = 0; i < CLUSTER_ROWS / 64; ++i) {
    const uint row = gl_WorkGroupID.x * CLUSTER_ROWS + i * 64 + lane;
    limits[i] = -3.4e38;
    if (row >= p.rows || is_unread(softmax_of(row)) || !is_finite(scores[row])) continue;
    // Noise that two shaders compute may differ in the last bits.
    const float slack = (abs(scores[row]) + params.cut_margin + 64) * (1.0 / 1048576);
    limits[i] = scores[row] - params.cut_margin - slack;
  }
  for (uint k = 1; k < p.count; ++k) {
    if (!is_unread(k)) continue;
    const float bound = value_of(clusters.bounds[k]);
    uint count = 0;
    for (uint i = 0; i < CLUSTER_ROWS / 64; ++i) count += limits[i] > bound ? 1 : 0;
    if (count > 0) atomicAdd(better[k], count);
  }
  barrier();
  if (lane < MAX_SOFTMAXES && better[lane] != 0) atomicAdd(clusters.better[lane], better[lane]);
  memoryBarrierBuffer();
  barrier();
  if (lane == 0) arrived = atomicAdd(clusters.done, 1);
  barrier();
  if (lane > 0 || arrived + 1 != gl_NumWorkGroups.x) return;
  memoryBarrierBuffer();
  choose();
}
