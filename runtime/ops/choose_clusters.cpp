#include "ops/support.h"

#include "ops/filter.h"
#include "ops/rows.h"

#include "bound_clusters.spv.h"
#include "choose_clusters.spv.h"

namespace weft::ops {

namespace {

constexpr uint32_t kClusterRows = 1024;  // CLUSTER_ROWS of lib/clusters.glsl

}  // namespace

void choose_clusters(Recorder& recorder, const Matrix& table, const ClusterViews& views, uint32_t softmaxes,
                     bool again) {
  require_bytes(views.token_flags, uint64_t{TOKEN_FLAG_WORDS(table.rows)} * 4, "choose_clusters", "token flags");
  require_bytes(views.logits, uint64_t{table.rows} * 4, "choose_clusters", "logits");
  require_bytes(views.bounds, uint64_t{softmaxes} * 8, "choose_clusters", "bounds");
  require_bytes(views.scores, uint64_t{table.rows} * 4, "choose_clusters", "scores");
  require_bytes(views.clusters, sizeof(abi::ClusterState), "choose_clusters", "clusters");
  require(softmaxes <= MAX_SOFTMAXES, "choose_clusters", "more softmaxes than there is room for");
  const Plan& plan = recorder.device().plan();
  const auto slice_rows =
      static_cast<uint32_t>(std::min<uint64_t>(plan.slice_bytes / table.tile_bytes(), table.tiles()) * TILE_ROWS);
  const abi::ClustersPush push = {table.rows, softmaxes, again, slice_rows, rows_variant(plan, table, 1).group_rows};
  const Groups groups = {ceil_div(table.rows, kClusterRows)};
  const View scores = views.scores.part(0, uint64_t{table.rows} * 4);
  recorder.dispatch(shaders::bound_clusters, {},
                    shaders::BoundClusters::Bindings{.state = views.state,
                                                     .params = views.params,
                                                     .token_flags = views.token_flags,
                                                     .logits = views.logits,
                                                     .bounds = views.bounds,
                                                     .scores = scores,
                                                     .clusters = views.clusters},
                    push, groups);
  recorder.dispatch(shaders::choose_clusters, {},
                    shaders::ChooseClusters::Bindings{.state = views.state,
                                                      .params = views.params,
                                                      .scores = scores,
                                                      .bounds = views.bounds,
                                                      .clusters = views.clusters},
                    push, groups);
}

}  // namespace weft::ops
