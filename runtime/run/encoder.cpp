#include "run/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace weft {

Encoder::Encoder(const Model& model, uint32_t context, Policy policy, std::vector<Duty*> duties)
    : model_(model), context_(context), pool_(model.device), queue_(model, policy, std::move(duties)) {
  constexpr uint32_t kFirst = 512;
  grow(std::min(context, kFirst));
  if (!model.weights.sound) return;
  grow(context);
  const uint64_t bytes = columns_bytes(model.config, whole_chunks(model, context));
  columns_ = Buffer(model.device, "sound columns", bytes, Memory::shared);
  std::memset(columns_.data(), 0, columns_.bytes());
  frames_state_ = StepState(model.device, "sound state", size_t{context} * SoundInput::kTaps);
}

uint64_t Encoder::bytes() const {
  const uint64_t sound = columns_.bytes() + frames_state_.bytes();
  if (!buffers_) return sound;
  return buffers_->activations.bytes() + buffers_->cache.bytes() + buffers_->step.bytes() + sound;
}

// Doubles, so that longer and longer inputs do not allocate again and again.
void Encoder::grow(size_t tokens) {
  if (tokens <= capacity_) return;
  const uint32_t wanted = std::max(whole_chunks(model_, tokens), 2 * capacity_);
  const uint32_t capacity = std::min(wanted, context_);
  passes_.clear();
  capacity_ = 0;
  buffers_.reset();
  buffers_.emplace(model_, capacity, whole_chunks(model_, capacity));
  capacity_ = capacity;
}

// A pass takes the whole input, rounded up to whole chunks: each token attends to the keys of all of it.
const RecordedPass& Encoder::recorded(uint32_t tokens) {
  if (const auto found = passes_.find(tokens); found != passes_.end()) return found->second;
  const ActivationBuffers& a = buffers_->activations;
  Pass pass = {model_, a, buffers_->step, buffers_->cache, tokens};
  if (model_.weights.sound) pass.sound = {columns_, frames_state_};
  const auto norm = [&](Recorder& r) {
    ops::norm(r, model_.config.norm(), buffers_->step.state, a.x, model_.weights.final_norm, a.normed, tokens, false);
  };
  return passes_.emplace(tokens, record_pass(pool_, pass, norm)).first->second;
}

void Encoder::run(std::span<const uint32_t> all) {
  if (model_.weights.sound) throw Error(Code::unsupported, "the encoder hears sound and reads no text", "input");
  // As sentence-transformers cuts: the end of a text stays its last token.
  const size_t most = model_.config.sentences.most_tokens;
  std::vector<uint32_t> cut;
  if (most > 0 && all.size() > most) {
    cut.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most));
    cut.back() = all.back();
  }
  const std::span<const uint32_t> ids = cut.empty() ? all : std::span<const uint32_t>(cut);
  if (ids.empty()) throw Error(Code::invalid_argument, "it has no token", "input");
  if (ids.size() > context_)
    throw Error(Code::context_full,
                std::to_string(ids.size()) + " tokens were given, the encoder reads " + std::to_string(context_),
                "input", "give a shorter text");
  for (const uint32_t id : ids)
    if (id >= model_.config.vocab)
      throw Error(
          Code::invalid_argument,
          "id " + std::to_string(id) + ", the vocabulary has " + std::to_string(model_.config.vocab) + " tokens",
          "input");
  grow(ids.size());
  std::memcpy(buffers_->step.history.data(), ids.data(), ids.size_bytes());
  compute(static_cast<uint32_t>(ids.size()));
}

void Encoder::hear(std::span<const float> frames) {
  const Config& c = model_.config;
  if (!model_.weights.sound || frames.size() != size_t{context_} * kFramesPerPosition * c.bands)
    throw Error(Code::invalid_argument,
                std::to_string(frames.size()) + " numbers, the encoder reads " + std::to_string(c.bands) +
                    " bands of " + std::to_string(context_ * kFramesPerPosition) + " frames",
                "frames");
  write_columns(frames, c.bands, {columns_.as<float>(), columns_.bytes() / 4});
  frames_state_.begin(0, size_t{context_} * SoundInput::kTaps);
  compute(context_);
}

void Encoder::compute(uint32_t tokens) {
  length_ = 0;
  buffers_->step.state.begin(0, tokens);
  const uint32_t rows = whole_chunks(model_, tokens);
  queue_.submit(rows, recorded(rows));
  queue_.drain();
  length_ = tokens;
}

std::vector<float> Encoder::embedding(Pooling pooling, uint32_t size) const {
  const SentenceConfig& sentences = model_.config.sentences;
  if (size == 0 || size > sentences.size(model_.config.width))
    throw Error(
        Code::invalid_argument,
        std::to_string(size) + " elements, an embedding has " + std::to_string(sentences.size(model_.config.width)),
        "dimensions");
  if (length_ == 0) throw Error(Code::invalid_argument, "no input was read", "encoder", "run it first");
  const size_t width = model_.config.width, stride = stride_of(model_.config.width);
  const size_t begin = pooling == Pooling::last ? length_ - 1 : 0, end = pooling == Pooling::first ? 1 : length_;
  const std::vector<float> states =
      download_as<float>(model_.device, activations().normed.part(begin * stride * 4, (end - begin) * stride * 4));
  std::vector<double> sum(width);
  for (size_t t = 0; t < end - begin; ++t)
    for (size_t i = 0; i < width; ++i) sum[i] += states[t * stride + i] / static_cast<double>(end - begin);
  if (sentences.dense)
    for (const DenseLayer& layer : *sentences.dense) sum = layer.apply(sum);
  sum.resize(size);
  double square = 0;
  for (const double value : sum) square += value * value;
  const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
  std::vector<float> result(size);
  std::ranges::transform(sum, result.begin(), [&](double value) { return static_cast<float>(value * scale); });
  return result;
}

std::vector<float> Encoder::last_state() const {
  const uint64_t row = uint64_t{stride_of(model_.config.width)} * 4;
  std::vector<float> state = download_as<float>(model_.device, activations().normed.part((length_ - 1) * row, row));
  state.resize(model_.config.width);
  return state;
}

std::vector<float> Encoder::masked_logits(size_t place) {
  const Config& c = model_.config;
  const MaskedHead* head = model_.weights.masked_head.get();
  if (!head)
    throw Error(Code::unsupported, "the model has no head for masked tokens", "model",
                "its file holds the encoder alone; embeddings can be had");
  if (place >= length_)
    throw Error(Code::invalid_argument,
                "place " + std::to_string(place) + ", the input has " + std::to_string(length_) + " tokens", "place");
  const uint64_t row = uint64_t{stride_of(c.width)} * 4;
  const ActivationBuffers& a = buffers_->activations;
  const View state = buffers_->step.state;
  // Rows of x, which the layers no longer need.
  const View hidden = a.x.part(0, row), one = a.x.part(row, row);
  run_once(model_.device, "masked token", [&](Recorder& r) {
    r.copy(a.normed.part(place * row, row), hidden);
    ops::matmul(r, head->transform, state, hidden, one, 1, ops::Output::write);
    ops::activate(r, c.layer_kind.activation, false, state, one, one, c.width, 1);
    ops::norm(r, {c.width, c.epsilon, ops::NormKind::layer}, state, one, head->norm, one, 1, false);
    const Matrix& table = model_.weights.output_table().matrix();
    ops::rotate(r, table, one, a.rotated, 1);
    ops::project(r, table, a.rotated, a.logits, 1);
    ops::add(r, head->bias, a.logits, c.vocab);
  });
  return download_as<float>(model_.device, a.logits.part(0, uint64_t{c.vocab} * 4));
}

Source::Source(const Model& model, uint32_t context, const ops::CacheFormat& format, Policy policy, Duty& duty)
    : model_(model),
      context_(model.config.hears() ? model.config.encoder->context : context),
      encoder_(*model.weights.encoder, context_, policy, {&duty}),
      cache_(model, context_, whole_chunks(model, context_), source_format(format)),
      pool_(model.device),
      queue_(model, policy, {&duty}) {
  encoder_.reserve();
}

void Source::read(std::span<const uint32_t> ids) {
  ids_.clear();
  encoder_.run(ids);
  read_states(static_cast<uint32_t>(ids.size()));
  ids_.assign(ids.begin(), ids.end());
}

void Source::hear(const std::shared_ptr<const std::vector<float>>& frames) {
  heard_.reset();
  encoder_.hear(*frames);
  read_states(context_);
  heard_ = frames;
}

// The encoder's buffers stay where they are: they have room for the longest input.
std::vector<CommandBuffer> Source::record_reads(uint32_t tokens) {
  const ActivationBuffers& a = encoder_.activations();
  const StepBuffers& step = encoder_.step();
  const Config& c = model_.config;
  std::vector<CommandBuffer> layers;
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    Recorder r(pool_, "source");
    model_.weights.layers[layer].cross->read(r, c, step.state, a.normed, step.rope_tables[0], a.qkv, a.q, cache_, layer,
                                             tokens);
    layers.push_back(r.finish(layer + 1 == c.layers));
  }
  return layers;
}

void Source::read_states(uint32_t count) {
  std::vector<CommandBuffer>& layers = reads_[whole_chunks(model_, count)];
  if (layers.empty()) layers = record_reads(whole_chunks(model_, count));
  const std::span<const CommandBuffer> all = layers;
  queue_.submit(0, all.first(all.size() - 1), all.back());
  queue_.drain();
}

}  // namespace weft
