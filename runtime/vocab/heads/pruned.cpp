#include "vocab/heads/pruned.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "cut.spv.h"
#include "decide.spv.h"
#include "estimate.spv.h"
#include "leaders.spv.h"
#include "ops/rows.h"
#include "quantise.spv.h"
#include "refine.spv.h"
#include "select.spv.h"

namespace weft {
namespace {

// Records the steps of a partial head; holds the values that all of them use.
class Recording {
 public:
  Recording(Recorder& recorder, const Matrix& table, const PartialHeadSteps& steps, const PartialHeadBuffers& buffers,
            const PartialHeadViews& views)
      : recorder_(recorder),
        plan_(recorder.device().plan()),
        table_(table),
        slices_(table.slices(plan_.slice_bytes)),
        steps_(steps),
        buffers_(buffers),
        views_(views),
        rows_(ops::rows_per_group(plan_)) {}

  void quantise() {
    const auto tiles = [&](const Matrix::Slice& slice) {
      return steps_.listed ? 0 : ops::ceil_div(slice.rows, TILE_ROWS);
    };
    recorder_.dispatch(
        plan_.subgroup ? shaders::quantise_subgroup : shaders::quantise,
        shaders::Quantise::Constants{.threads = plan_.reduce_threads},
        shaders::Quantise::Bindings{.state = views_.state,
                                    .params = views_.params,
                                    .x = views_.x,
                                    .basis = table_.basis_words,
                                    .factors = buffers_.factors},
        abi::QuantisePush{table_.basis->cols(), static_cast<uint32_t>(table_.format), tiles(slices_.front()),
                          tiles(slices_.back()), rows_, steps_.estimates ? 1u : 0u},
        {1});
  }

  void estimate(uint32_t mode) {
    const ops::RowsVariant variant = product();
    for (const Matrix::Slice& slice : slices_) {
      const bool last = &slice == &slices_.back();
      const size_t groups = offsetof(abi::HeadState, estimates) + (2 * mode + (last ? 1 : 0)) * sizeof(abi::Indirect);
      recorder_.dispatch_indirect(
          variant.texel ? shaders::estimate_texel : shaders::estimate,
          shaders::Estimate::Constants{.format = variant.format,
                                       .tokens = variant.tokens,
                                       .split = variant.split,
                                       .row_tiles = variant.row_tiles,
                                       .mode = mode,
                                       .listed = steps_.listed},
          shaders::Estimate::Bindings{.words = slice.view,
                                      .inputs = buffers_.factors,
                                      .state = views_.state,
                                      .allowed_rows = buffers_.allowed_rows,
                                      .lists = buffers_.lists},
          abi::EstimatePush{table_.cols, slice.row_base, slice.rows, table_.rows, steps_.masked ? 1u : 0u},
          head(groups));
    }
  }

  void leaders() {
    recorder_.dispatch(plan_.texel_products ? shaders::leaders_texel : shaders::leaders,
                       shaders::Leaders::Constants{.listed = steps_.listed},
                       shaders::Leaders::Bindings{.state = views_.state,
                                                  .allowed_rows = buffers_.allowed_rows,
                                                  .lists = buffers_.lists,
                                                  .estimates = buffers_.lists},
                       abi::LeadersPush{table_.rows}, {MAX_LEADERS});
    const ops::RowList list = {buffers_.lists, LIST_LEADERS(table_.rows), true, LIST_LEADER_LOGITS(table_.rows),
                               head(offsetof(abi::HeadState, leaders))};
    ops::project_rows(recorder_, table_, views_.x, views_.state, list, buffers_.lists);
  }

  void cut() {
    recorder_.dispatch(
        shaders::cut, {},
        shaders::Cut::Bindings{
            .state = views_.state, .params = views_.params, .token_flags = views_.token_flags, .lists = buffers_.lists},
        abi::CutPush{table_.rows, rows_}, {1});
  }

  // again: after decide.
  void select(bool again) {
    recorder_.dispatch(
        plan_.texel_products ? shaders::select_texel : shaders::select,
        shaders::Select::Constants{.listed = steps_.listed},
        shaders::Select::Bindings{.state = views_.state,
                                  .params = views_.params,
                                  .token_flags = views_.token_flags,
                                  .allowed_rows = buffers_.allowed_rows,
                                  .lists = buffers_.lists,
                                  .bounds = buffers_.lists},
        abi::SelectPush{table_.rows, steps_.masked ? 1u : 0u, steps_.estimates ? stages() : 0, rows_, again ? 1u : 0u},
        {ops::ceil_div(table_.rows, SELECT_ROWS)});
  }

  void refine(uint32_t stage) {
    const ops::RowsVariant variant = product();
    for (const Matrix::Slice& slice : slices_)
      recorder_.dispatch_indirect(variant.texel ? shaders::refine_texel : shaders::refine,
                                  shaders::Refine::Constants{.format = variant.format,
                                                             .tokens = variant.tokens,
                                                             .split = variant.split,
                                                             .row_tiles = variant.row_tiles,
                                                             .stage = stage,
                                                             .listed = steps_.listed},
                                  shaders::Refine::Bindings{.words = slice.view,
                                                            .inputs = buffers_.factors,
                                                            .state = views_.state,
                                                            .allowed_rows = buffers_.allowed_rows,
                                                            .lists = buffers_.lists},
                                  abi::RefinePush{table_.cols, slice.row_base, slice.rows, table_.rows},
                                  head(offsetof(abi::HeadState, refine) + stage * sizeof(abi::Indirect)));
  }

  void compute(const View& logits) {
    const ops::RowList list = {buffers_.lists, LIST_IDS(table_.rows), false, 0, head(offsetof(abi::HeadState, exact))};
    ops::project_rows(recorder_, table_, views_.x, views_.state, list, logits);
  }

  void decide(const View& logits) {
    recorder_.dispatch(plan_.subgroup ? shaders::decide_subgroup : shaders::decide,
                       shaders::Decide::Constants{.threads = plan_.reduce_threads},
                       shaders::Decide::Bindings{.state = views_.state,
                                                 .params = views_.params,
                                                 .token_flags = views_.token_flags,
                                                 .lists = buffers_.lists,
                                                 .logits = logits},
                       abi::DecidePush{table_.rows}, {1});
  }

  uint32_t stages() const { return ESTIMATE_STAGES(static_cast<uint32_t>(table_.format)); }

 private:
  View head(size_t member) const { return views_.state.part(offsetof(abi::StepState, head) + member, 12); }
  // An estimate has one lane per row. Splitting columns would need one more sum, and there are rows enough for all
  // lanes.
  ops::RowsVariant product() const {
    ops::RowsVariant variant = ops::rows_variant(plan_, table_, 1);
    variant.split = 1;
    return variant;
  }

  Recorder& recorder_;
  const Plan& plan_;
  const Matrix& table_;
  const std::vector<Matrix::Slice> slices_;
  const PartialHeadSteps& steps_;
  const PartialHeadBuffers& buffers_;
  const PartialHeadViews& views_;
  const uint32_t rows_;
};

}  // namespace

PartialHeadBuffers::PartialHeadBuffers(const std::shared_ptr<Device>& device, const Table& table, bool part)
    : factors(device, "factors", uint64_t{FACTOR_WORDS(table.matrix().basis->rest())} * 16, Memory::device),
      lists(device, "lists", (uint64_t{LIST_WORDS(table.rows())} * 4 + 15) / 16 * 16, Memory::device),
      allowed_rows(device, "allowed rows", (uint64_t{table.rows()} + (table.rows() + 31) / 32) * 4, Memory::shared) {
  if (part)
    token_flags = Buffer(device, "own token flags", uint64_t{TOKEN_FLAG_WORDS(table.rows())} * 4, Memory::shared);
}

double sure_spread(double probability, uint32_t dimensions) {
  // A point on the unit sphere of n = dimensions - 1 dimensions. Its first coordinate has a density of c (1 - s^2) to
  // the power of (n - 3) / 2, with c at most sqrt((n - 1) / 2 pi) (Gautschi 1959); s / u is at least 1 above u, so more
  // than u has at most the probability (1 - u^2)^((n - 1) / 2) / (u sqrt(2 pi (n - 1))).
  if (dimensions < 4) return 1;
  const double n = dimensions - 1;
  const auto beyond = [n](double u) {
    return std::pow(1 - u * u, (n - 1) / 2) / (u * std::sqrt(2 * std::numbers::pi * (n - 1)));
  };
  double least = 0, most = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (least + most) / 2;
    (beyond(middle) > probability ? least : most) = middle;
  }
  return most;
}

void project_partly(Recorder& recorder, const Table& table, const PartialHeadSteps& steps,
                    const PartialHeadBuffers& buffers, const PartialHeadViews& views, const View& logits) {
  Recording head(recorder, table.matrix(), steps, buffers, views);
  head.quantise();
  if (steps.estimates) {
    for (uint32_t mode = 0; mode <= head.stages(); ++mode) head.estimate(mode);
    head.leaders();
    head.cut();
  }
  head.select(false);
  if (steps.estimates)
    for (uint32_t stage = 0; stage < head.stages(); ++stage) head.refine(stage);
  head.compute(logits);
  if (!steps.nucleus) return;
  head.decide(logits);
  head.select(true);
  head.compute(logits);
}

}  // namespace weft
