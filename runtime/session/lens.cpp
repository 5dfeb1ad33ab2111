// The logit lens over a session's context.
#include "run/lens.h"

#include <algorithm>
#include <list>

#include "base/error.h"
#include "session/session.h"

namespace weft {
namespace {

void check(const LensRange& range, size_t context, uint32_t layers) {
  require(context > 0, "lens", "the session has no prompt");
  require(range.first < context && range.count <= context - range.first && range.count > 0, "positions",
          std::to_string(range.count) + " from " + std::to_string(range.first) + " on are asked for, the context has " +
              std::to_string(context));
  require(!range.layers.empty(), "layers", "none is asked for");
  for (const uint32_t layer : range.layers)
    require(layer <= layers, "layers",
            "one is " + std::to_string(layer) + ", the model has 0 (the embedding) to " + std::to_string(layers));
}

// Hands rows on, as many at once as the projection takes.
class LensRows {
 public:
  // shards: of a table on several devices, else nullptr.
  LensRows(const Model& model, bool logits, ShardPasses* shards, const Session::OnLens& on_row)
      : scale_(model.config.residual_scale), on_row_(on_row) {
    if (logits) unembedding_.emplace(model, shards);
  }

  // translated: what the logits are of.
  bool add(LensRow row, std::span<const float> translated) {
    if (scale_ != 1) {
      std::vector<float>& own = scaled_.emplace_back(row.hidden.begin(), row.hidden.end());
      for (float& value : own) value *= scale_;
      row.hidden = own;
    }
    if (!unembedding_) {
      const bool more = on_row_(row);
      scaled_.clear();
      return more;
    }
    std::ranges::copy(translated, unembedding_->state(static_cast<uint32_t>(rows_.size())).begin());
    rows_.push_back(row);
    return rows_.size() < unembedding_->rows() || flush();
  }

  bool flush() {
    if (rows_.empty()) return true;
    unembedding_->run();
    for (uint32_t i = 0; i < rows_.size(); ++i) {
      rows_[i].logits = unembedding_->logits(i);
      if (!on_row_(rows_[i])) return false;
    }
    rows_.clear();
    scaled_.clear();
    return true;
  }

 private:
  const float scale_;                     // the device keeps states divided by it
  std::list<std::vector<float>> scaled_;  // elements stay where they are: rows refer to them
  const Session::OnLens& on_row_;
  std::optional<Unembedding> unembedding_;  // none: hidden states only
  std::vector<LensRow> rows_;               // that wait for their logits
};

}  // namespace

void Session::set_tuned_lens(const std::filesystem::path& folder) {
  if (!folder.empty() && model_.config.residual_scale != 1)
    throw Error(Code::unsupported, "the model multiplies its branches, which tuned lenses do not know", "tuned lens");
  tuned_lens_ = folder.empty() ? nullptr : std::make_unique<const ModelFile>(open_tuned_lens(folder, model_.config));
}

bool Session::lens(const LensRange& range, const OnLens& on_row) {
  check(range, ids_.size(), model_.config.layers);
  model_.need_plain_head("lens");
  need_no_picture("lens");
  OnDevice& d = on_device();
  const uint32_t chunk = d.schedule.chunk_tokens();
  const size_t end = range.first + range.count;
  write_soft();
  Pass pass = {model_, d.activations, d.step, d.kept.state(), chunk, d.source ? &d.source->cache() : nullptr};
  if (!soft_.empty()) pass.soft_rows = soft_part(0);
  for (size_t layer = 1; !pictures_.empty() && layer <= model_.config.deepstack; ++layer)
    pass.deepstack.push_back(soft_part(layer));
  pass.adapter = adapter_use();
  std::unique_ptr<ShardPasses> shards;
  if (!model_.weights.shards.empty()) {
    shards = std::make_unique<ShardPasses>(model_, chunk);
    pass.shards = shards->views();
  }
  LayerStates states(
      pass, range.layers, policy_,
      tuned_lens_ && range.logits ? std::make_unique<Translators>(model_, *tuned_lens_, range.layers) : nullptr);
  LensRows rows(model_, range.logits, shards.get(), on_row);
  d.kept.truncate(range.first);  // after what may fail for want of memory
  begin(true);
  d.step.state.end_at(end);
  d.kept.will_write(end);
  while (cached() < end) {
    const size_t begin = cached();
    if (shards) shards->gather(std::span(ids_).subspan(begin, std::min<size_t>(chunk, end - begin)));
    states.run();
    d.kept.set_tokens(std::min(begin + chunk, end));
    for (size_t at = std::max(begin, range.first); at < cached(); ++at)
      for (size_t i = 0; i < range.layers.size(); ++i) {
        const auto token = static_cast<uint32_t>(at - begin);
        const LensRow row = {range.layers[i], static_cast<uint32_t>(at), states.state(i, token), {}};
        if (!rows.add(row, states.translated(i, token))) return false;
      }
    // The next pass overwrites the states that the rows refer to.
    if (!rows.flush()) return false;
  }
  return true;
}

}  // namespace weft
