// The attention of a context's tokens to the positions of an encoder, for the CPU.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/half.h"
#include "run/watched_passes.h"
#include "session/session.h"

namespace weft {
namespace {

// Passes that leave the queries of some layers' cross-attention for the CPU.
class QueryPasses {
 public:
  // pass: of a chunk of tokens; its buffers outlive this. layers: in rising order.
  QueryPasses(const Pass& pass, std::span<const uint32_t> layers, Policy policy, Duty& duty)
      : tokens_(pass.tokens), stride_(stride_of(pass.model.config.query_dim())) {
    const uint64_t bytes = uint64_t{tokens_} * stride_ * sizeof(float);
    queries_ = Buffer(pass.model.device, "source queries", layers.size() * bytes, Memory::readback);
    const auto keep = [&](Recorder& r, uint32_t layer) {  // nothing after a layer writes a.q
      const auto found = std::ranges::find(layers, layer - 1);
      if (layer == 0 || found == layers.end()) return;
      r.copy(pass.a.q.part(0, bytes),
             View(queries_).part(static_cast<uint64_t>(found - layers.begin()) * bytes, bytes));
    };
    passes_.emplace(pass, policy, std::vector<Duty*>{&duty}, keep);
  }

  // Computes the next chunk of tokens: those from state.pos to state.end. Returns when they are computed.
  void run() { passes_->run(); }
  // All heads' of a token of the last chunk. layer: its place in `layers`.
  const float* of(size_t layer, size_t token) const {
    return queries_.as<float>() + (layer * tokens_ + token) * stride_;
  }

 private:
  uint32_t tokens_, stride_;
  Buffer queries_;  // (layers, tokens, stride), mapped
  std::optional<WatchedPasses> passes_;
};

// A head's keys of the first positions: (head_dim, positions).
std::vector<float> keys_of(const Model& model, const ops::CacheView& cache, uint32_t head, size_t positions) {
  const ops::HeadShape& shape = model.config.heads;
  const uint32_t words = (shape.head_dim + 7) / 8;
  const uint64_t bytes = cache.keys.bytes / shape.kv_heads;
  const std::vector<uint16_t> halves =
      download_as<uint16_t>(model.device, cache.keys.part(head / (shape.heads / shape.kv_heads) * bytes, bytes));
  std::vector<float> keys(shape.head_dim * positions);
  for (size_t p = 0; p < positions; ++p) {
    const uint16_t* const tile = &halves[p / TILE_ROWS * TILE_ROWS * words * 8];
    for (uint32_t i = 0; i < shape.head_dim; ++i)
      keys[i * positions + p] = half_to_float(tile[IN_KEYS(p % TILE_ROWS, i / 8, words) * 8 + i % 8]);
  }
  return keys;
}

void softmax(std::span<float> scores) {
  const float peak = *std::ranges::max_element(scores);
  double sum = 0;
  for (float& score : scores) sum += score = std::exp(score - peak);
  for (float& score : scores) score = static_cast<float>(score / sum);
}

}  // namespace

void Session::source_attention(std::span<const SourceHead> heads, size_t positions, const OnSourceHead& on_head) {
  const Config& c = model_.config;
  require(!ids_.empty(), "source_attention", "the session has no prompt");
  require(on_device().source != nullptr, "source_attention", "the model has no encoder");
  require(positions > 0 && positions <= source_positions(), "positions", "the input has fewer, or none is asked for");
  require(cache_format_ == Format::f16, "source_attention", "the cache is not f16");
  std::vector<uint32_t> layers;
  for (const SourceHead& head : heads) {
    require(head.layer < c.layers && head.head < c.heads.heads, "heads", "the model has fewer");
    layers.push_back(head.layer);
  }
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());

  OnDevice& d = on_device();
  const uint32_t chunk = d.schedule.chunk_tokens();
  QueryPasses passes({model_, d.activations, d.step, d.kept.state(), chunk, &d.source->cache()}, layers, policy_,
                     *duty_);
  d.kept.truncate(0);  // after what may fail for want of memory
  begin(true);
  d.kept.will_write(ids_.size());
  const uint32_t cols = c.query_dim();
  std::vector<float> queries(layers.size() * ids_.size() * cols);
  while (cached() < ids_.size()) {
    const size_t first = cached(), end = std::min(first + chunk, ids_.size());
    passes.run();
    d.kept.set_tokens(end);
    for (size_t layer = 0; layer < layers.size(); ++layer)
      for (size_t token = first; token < end; ++token)
        std::copy_n(passes.of(layer, token - first), cols, &queries[(layer * ids_.size() + token) * cols]);
  }
  std::vector<float> weights(ids_.size() * positions);
  for (const SourceHead& head : heads) {
    const auto layer = static_cast<size_t>(std::ranges::find(layers, head.layer) - layers.begin());
    const ops::CacheView& cache = std::get<AttentionState>(d.source->cache().layers[head.layer]).cache;
    const std::vector<float> keys = duty_->run([&] { return keys_of(model_, cache, head.head, positions); });
    std::ranges::fill(weights, 0.0f);
    for (size_t token = 0; token < ids_.size(); ++token) {
      const float* const query = &queries[(layer * ids_.size() + token) * cols + head.head * c.heads.head_dim];
      const std::span<float> row = std::span(weights).subspan(token * positions, positions);
      for (uint32_t i = 0; i < c.heads.head_dim; ++i) {
        const float q = query[i] * c.attention_scale;
        const float* const key = &keys[i * positions];
        for (size_t p = 0; p < positions; ++p) row[p] += q * key[p];
      }
      softmax(row);
    }
    on_head(weights);
  }
}

}  // namespace weft
