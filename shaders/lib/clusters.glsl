// Rows and clusters of an adaptive softmax. Needs `bounds`, `clusters` and the push constants p.
const uint CLUSTER_ROWS = 1024;  // that a workgroup of bound_clusters and of choose_clusters looks at

uint softmax_of(uint row) {
  uint k = 0;
  while (k + 1 < p.count && row >= bounds[2 * k + 1]) ++k;
  return k;
}
bool is_unread(uint softmax) { return softmax > 0 && (clusters.read >> softmax & 1) == 0; }
