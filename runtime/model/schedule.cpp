#include "model/schedule.h"

namespace weft {

Schedule::Schedule(const Model& model, const Activations& activations, const StepBuffers& step, const KvCache& cache,
                   const KvCache* source, Policy policy)
    : model_(model),
      activations_(activations),
      step_(step),
      cache_(cache),
      source_(source),
      chunk_tokens_(model.device->plan().chunk_tokens),
      pool_(model.device),
      flights_(model, policy) {
  // Every kernel of a greedy session is asked for before the first recording waits for one.
  Recorder survey(*model.device);
  for (const uint32_t tokens : {1u, chunk_tokens_}) {
    record_embed(survey, pass(tokens));
    for (uint32_t layer = 0; layer < model.config.layers; ++layer) record_layer(survey, pass(tokens), layer);
    record_tail(survey, pass(tokens), Tail::greedy, {});
  }
  decode_ = record_body(1, nullptr);
  chunk_ = record_body(chunk_tokens_, nullptr);
}

Schedule::~Schedule() = default;  // the fences wait before the pool goes: they are declared after it

CommandBuffer Schedule::record(const std::string& name, Timestamps* timestamps, bool host_reads,
                               const std::function<void(Recorder&)>& commands) {
  Recorder recorder(pool_, name, timestamps);
  commands(recorder);
  return recorder.finish(host_reads);
}

// Commands that the constructor's survey has not seen.
CommandBuffer Schedule::record_end(Timestamps* timestamps, const std::function<void(Recorder&)>& commands) {
  Recorder survey(*model_.device);
  commands(survey);
  return record("tail", timestamps, true, commands);
}

Schedule::Body Schedule::record_body(uint32_t tokens, Timestamps* timestamps) {
  Body body;
  body.embed = record("embed", timestamps, false, [&](Recorder& r) { record_embed(r, pass(tokens)); });
  for (uint32_t layer = 0; layer < model_.config.layers; ++layer)
    body.layers.push_back(record("layer " + std::to_string(layer), timestamps, false,
                                 [&](Recorder& r) { record_layer(r, pass(tokens), layer); }));
  return body;
}

const Schedule::Timed& Schedule::timed(Tail tail, const TailHead& head) {
  const TailKey key = {1, tail, head.partial != nullptr, head.shapes, head.logprobs};
  if (const auto found = timed_.find(key); found != timed_.end()) return found->second;
  Timed timed;
  // A layer has nine operations, fourteen behind an encoder, three more for each expert; a sliced matrix has a dispatch
  // a slice.
  const Config& config = model_.config;
  timed.timestamps = std::make_unique<Timestamps>(model_.device, (64 + 16 * config.experts.used) * (config.layers + 4));
  timed.body = record_body(1, timed.timestamps.get());
  timed.tail = record_end(timed.timestamps.get(), [&](Recorder& r) { record_tail(r, pass(1), tail, head); });
  return timed_.emplace(key, std::move(timed)).first->second;
}

void Schedule::submit(uint32_t tokens, Tail tail, const TailHead& head, bool timestamps) {
  if (timestamps && tokens == 1) {
    last_timed_ = &timed(tail, head);
    return launch(last_timed_->body, last_timed_->tail, 1);
  }
  const TailKey key = {tokens, tail, head.partial != nullptr, head.shapes, head.logprobs};
  auto found = tails_.find(key);
  if (found == tails_.end()) {
    const CommandBuffer recorded = record_end(nullptr, [&](Recorder& r) { record_tail(r, pass(tokens), tail, head); });
    found = tails_.emplace(key, recorded).first;
  }
  launch(tokens == 1 ? decode_ : chunk_, found->second, tokens);
}

void Schedule::submit_score(const HeadBuffers* masked) {
  if (!nll_) {
    const uint64_t block = model_.device->plan().block_tokens;
    block_logits_ = Buffer(model_.device, "block logits", block * stride_of(model_.config.vocab) * 4, Memory::device);
    nll_ = Buffer(model_.device, "nll", step_.history.bytes(), Memory::readback);
  }
  CommandBuffer& score = masked ? masked_score_ : score_;
  if (!score.handle())
    score =
        record_end(nullptr, [&](Recorder& r) { record_score(r, pass(chunk_tokens_), block_logits_, nll_, masked); });
  launch(chunk_, score, chunk_tokens_);
}

void Schedule::launch(const Body& body, const CommandBuffer& tail, uint32_t tokens) {
  std::vector<const CommandBuffer*> commands = {&body.embed};
  for (const CommandBuffer& layer : body.layers) commands.push_back(&layer);
  commands.push_back(&tail);
  flights_.submit(commands, tokens == 1 ? 2 : 1);
}

std::vector<Timestamps::Stage> Schedule::read_times() const {
  return last_timed_ ? last_timed_->timestamps->read() : std::vector<Timestamps::Stage>{};
}

double Schedule::read_gaps() const { return last_timed_ ? last_timed_->timestamps->gaps() : 0; }

}  // namespace weft
