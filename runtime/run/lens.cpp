#include "run/lens.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

uint64_t row_bytes(uint32_t cols) { return uint64_t{stride_of(cols)} * sizeof(float); }

}  // namespace

LayerStates::LayerStates(const Pass& pass, std::span<const uint32_t> layers, Policy policy,
                         std::unique_ptr<Translators> translators)
    : model_(pass.model),
      tokens_(pass.tokens),
      layers_(layers.begin(), layers.end()),
      translators_(std::move(translators)) {
  const Config& config = model_.config;
  const uint64_t bytes = tokens_ * row_bytes(config.width);
  states_ = Buffer(model_.device, "layer states", layers.size() * bytes, Memory::readback);
  if (translators_) translated_ = Buffer(model_.device, "translated states", states_.bytes(), Memory::readback);
  const auto keep = [&](Recorder& r, uint32_t layer) {
    View state = pass.a.x;
    const auto is_wanted = [layer](uint32_t wanted) { return wanted == layer; };
    if (std::ranges::none_of(layers, is_wanted)) return;
    if (config.layer_kind.norm_after && layer == config.layers) {
      ops::norm(r, config.norm(), pass.step.state, pass.a.x, model_.weights.final_norm, pass.a.normed, tokens_, false);
      state = pass.a.normed;
    }
    for (size_t i = 0; i < layers.size(); ++i)
      if (is_wanted(layers[i])) r.copy(state.part(0, bytes), View(states_).part(i * bytes, bytes));
  };
  passes_.emplace(pass, policy, std::vector<Duty*>(), keep);
}

void LayerStates::run() {
  passes_->run();
  if (!translators_) return;
  const uint64_t bytes = tokens_ * row_bytes(model_.config.width);
  run_once(model_.device, "translate", [&](Recorder& r) {
    for (size_t i = 0; i < layers_.size(); ++i)
      if (is_translated(i))
        translators_->record(r, layers_[i], View(states_).part(i * bytes, bytes),
                             View(translated_).part(i * bytes, bytes), tokens_);
  });
}

std::span<const float> LayerStates::row(const Buffer& states, size_t layer, uint32_t token) const {
  const uint32_t width = model_.config.width;
  return {states.as<float>() + (layer * tokens_ + token) * stride_of(width), width};
}

Unembedding::Unembedding(const Model& model, ShardPasses* shards)
    : model_(model), shards_(shards), rows_(shards ? 1 : model.device->plan().block_tokens) {
  const uint64_t bytes = rows_ * row_bytes(model.config.width);
  step_ = StepState(model.device, "lens step", rows_);
  states_ = Buffer(model.device, "lens states", bytes, Memory::shared);
  normed_ = Buffer(model.device, "lens normed", bytes, Memory::device);
  rotated_ = Buffer(model.device, "lens rotated", bytes, Memory::device);
  logits_ = Buffer(model.device, "lens logits", rows_ * row_bytes(model.config.vocab), Memory::readback);
  std::memset(states_.data(), 0, bytes);
  step_.begin(0, rows_);
  run_once(model.device, "clear the lens", [&](Recorder& r) {  // the products read the padding after a row's columns
    r.fill(normed_, 0);
    r.fill(rotated_, 0);
  });
}

std::span<float> Unembedding::state(uint32_t row) {
  const uint32_t width = model_.config.width;
  return {states_.as<float>() + uint64_t{row} * stride_of(width), width};
}

void Unembedding::run() {
  const Config& config = model_.config;
  const Weights& weights = model_.weights;
  const Matrix& table = weights.output_table().matrix();
  run_once(model_.device, "lens", [&](Recorder& r) {
    View normed = states_;
    if (!config.layer_kind.norm_after) {
      ops::norm(r, config.norm(), step_, states_, weights.final_norm, normed_, rows_, false);
      normed = normed_;
    }
    ops::rotate(r, table, normed, rotated_, rows_);
    ops::project(r, table, rotated_, logits_, rows_);
    if (shards_) r.copy(View(rotated_).part(0, shards_->views().state.bytes), shards_->views().state);
  });
  if (shards_) add_shards();
  if (weights.logit_bias)
    run_once(model_.device, "lens bias", [&](Recorder& r) {
      const uint64_t bytes = row_bytes(config.vocab);
      for (uint32_t row = 0; row < rows_; ++row)
        ops::add(r, weights.logit_bias, View(logits_).part(row * bytes, bytes), config.vocab);
    });
  for (uint32_t row = 0; row < rows_ && config.logit_cap > 0; ++row) {
    float* logits = logits_.as<float>() + uint64_t{row} * stride_of(config.vocab);
    for (uint32_t id = 0; id < config.vocab; ++id) logits[id] = config.soft_capped(logits[id]);
  }
}

// The logits of the rows on other devices, after the device's own.
void Unembedding::add_shards() {
  shards_->begin_projection();
  shards_->end_projection();
  const View others = shards_->views().logits;
  std::memcpy(logits_.as<float>() + model_.weights.output_table().rows(), others.buffer->data(), others.bytes);
}

}  // namespace weft
