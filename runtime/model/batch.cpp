#include "model/batch.h"

#include <algorithm>
#include <bit>

namespace weft {
namespace {

// Products take a power of two of tokens, or whole groups.
uint32_t rows_for(const Model& model, size_t lanes) {
  const uint32_t count = static_cast<uint32_t>(lanes), group = model.device->plan().block_tokens;
  return count <= group ? std::min(std::bit_ceil(count), group) : static_cast<uint32_t>(align_up(count, group));
}

}  // namespace

Batch::Batch(const Model& model, std::span<const Lane> lanes, Policy policy)
    : model_(model),
      rows_(rows_for(model, lanes.size())),
      activations_(model, rows_, rows_),
      step_(model, rows_, 1),
      pool_(model.device),
      flights_(model, policy) {
  abi::StepState& state = *step_.state.as<abi::StepState>();
  state.end = static_cast<uint32_t>(lanes.size());
  state.context = rows_;
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < lanes.size(); ++i) flows.push_back(activations_.row(i));
  Pass pass = {model_, activations_, step_, lanes.front().cache, rows_};
  std::vector<LaneTail> tails;
  for (size_t i = 0; i < lanes.size(); ++i) {
    pass.lanes.push_back({model_, flows[i], lanes[i].step, lanes[i].cache, 1});
    tails.push_back(lanes[i].tail);
  }
  const auto record = [&](const std::string& name, bool host_reads, const auto& commands) {
    Recorder recorder(pool_, name);
    commands(recorder);
    passes_.push_back(recorder.finish(host_reads));
  };
  record("embed", false, [&](Recorder& r) { record_embed(r, pass); });
  for (uint32_t layer = 0; layer < model_.config.layers; ++layer)
    record("layer " + std::to_string(layer), false, [&](Recorder& r) { record_layer(r, pass, layer); });
  record("tail", true, [&](Recorder& r) { record_batch_tail(r, pass, tails); });
  for (const CommandBuffer& part : passes_) commands_.push_back(&part);
}

Batch::~Batch() = default;  // the fences wait before the pool goes: they are declared after it

}  // namespace weft
