#include "model/activations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace weft {
namespace {

void zero(const Buffer& buffer) { std::memset(buffer.data(), 0, buffer.bytes()); }

// Cosine and sine of position * frequency, in double: fp32 on the device would lose the angle at large positions.
Buffer make_rope_table(const Rope& rope, uint32_t context, uint32_t positions, const std::shared_ptr<Device>& device) {
  const std::vector<double> frequencies = rope.frequencies_for(context);
  const size_t pairs = frequencies.size();
  std::vector<float> values(std::max<size_t>(positions * pairs * 2, 2));  // a binding is never empty
  for (size_t i = 0; i < pairs; ++i)
    for (uint32_t position = 0; position < positions; ++position) {
      const double angle = position * frequencies[i];
      values[(position * pairs + i) * 2] = static_cast<float>(rope.magnitude * std::cos(angle));
      values[(position * pairs + i) * 2 + 1] = static_cast<float>(rope.magnitude * std::sin(angle));
    }
  Buffer table(device, "rope table", values.size() * 4, Memory::device);
  Uploader(device).upload(table, std::span<const float>(values));
  return table;
}

}  // namespace

uint32_t candidate_stride(const Model& model) {
  const uint32_t most = std::max(ops::candidate_count(model.config.vocab),
                                 ops::best_count(model.device->plan(), model.weights.output_table().matrix()));
  constexpr uint32_t kWords = sizeof(abi::Candidate) / 4;
  return stride_of(most * kWords) / kWords;
}

ActivationBuffers::ActivationBuffers(const Model& model, uint32_t tokens, uint32_t sampled) {
  const Config& config = model.config;
  uint64_t bytes = 0;
  const auto plan = [&](View Activations::*view, uint32_t rows, uint64_t cols) {
    const uint64_t row_bytes = uint64_t{stride_of(static_cast<uint32_t>(cols))} * 4;
    parts_.push_back({view, row_bytes});
    this->*view = View();
    (this->*view).offset = bytes;
    (this->*view).bytes = rows * row_bytes;
    bytes += rows * row_bytes;
  };
  plan(&Activations::x, tokens, config.width);
  plan(&Activations::normed, tokens, config.width);
  plan(&Activations::rotated, tokens, config.width);
  plan(&Activations::qkv, tokens, config.query_dim() + 2 * config.kv_dim());
  plan(&Activations::q, tokens, config.query_dim());
  plan(&Activations::attended, tokens, config.query_dim());
  plan(&Activations::gate_up, tokens, (config.block.gated ? 2 : 1) * config.ffn);
  plan(&Activations::inner, tokens, config.ffn);
  plan(&Activations::routing, tokens, config.experts.count);
  plan(&Activations::chosen, tokens, config.experts.used * sizeof(abi::ExpertChoice) / 4);
  plan(&Activations::logits, sampled, config.vocab);
  plan(&Activations::scores, sampled, config.vocab);
  plan(&Activations::candidates, sampled, candidate_stride(model) * sizeof(abi::Candidate) / 4);
  buffer = Buffer(model.device, "activations", bytes, Memory::device);
  for (const Part& part : parts_) (this->*part.view).buffer = &buffer;
  // The products read the padding after a row's columns. It must be zero, and nothing ever writes to it.
  run_once(model.device, "clear activations", [&](Recorder& recorder) { recorder.fill(buffer, 0); });
}

Activations ActivationBuffers::row(uint32_t row) const {
  Activations one;
  for (const Part& part : parts_) one.*part.view = (this->*part.view).part(row * part.row_bytes, part.row_bytes);
  return one;
}

StepBuffers::StepBuffers(const Model& model, uint32_t context, uint32_t table_positions) {
  const std::shared_ptr<Device>& device = model.device;
  state = Buffer(device, "state", sizeof(abi::StepState), Memory::shared);
  params = Buffer(device, "sampling", sizeof(abi::SampleParams), Memory::shared);
  history = Buffer(device, "history", uint64_t{context} * 4, Memory::shared);
  rows = model.config.vocab;
  token_flags = Buffer(device, "token flags", uint64_t{TOKEN_FLAG_WORDS(rows)} * 4, Memory::shared);
  ring = Buffer(device, "ring", RING * sizeof(abi::RingEntry), Memory::readback);
  logprobs = Buffer(device, "logprobs", RING * sizeof(abi::TokenLogprobs), Memory::readback);
  for (const Buffer* buffer : {&state, &params, &history, &token_flags, &ring, &logprobs}) zero(*buffer);
  for (const Rope& rope : model.config.ropes)
    rope_tables.push_back(make_rope_table(rope, context, table_positions, device));
}

uint64_t StepBuffers::bytes() const {
  uint64_t sum = 0;
  for (const Buffer* buffer : {&state, &params, &history, &token_flags, &ring, &logprobs}) sum += buffer->bytes();
  for (const Buffer& buffer : rope_tables) sum += buffer.bytes();
  return sum;
}

KvCache::KvCache(const Model& model, uint32_t context, uint32_t pass_tokens, Format format) {
  const ops::HeadShape& heads = model.config.heads;
  if (model.config.has_position_table() && context > model.config.context)
    throw Error(Code::unsupported,
                "a context of " + std::to_string(context) + " tokens, the model has " +
                    std::to_string(model.config.context) + " positions",
                "context", "use a smaller context");
  const uint64_t limit = model.device->plan().slice_bytes;
  uint64_t part_bytes = 0;
  for (uint32_t layer = 0; layer < model.config.layers; ++layer) {
    const uint32_t window = model.config.positions[layer].window;
    const uint64_t needed = window ? std::min<uint64_t>(context, uint64_t{window} + pass_tokens - 1) : context;
    const uint32_t capacity = static_cast<uint32_t>(align_up(needed, TILE_ROWS));
    const uint64_t keys = ops::key_bytes(heads, capacity, format), values = ops::value_bytes(heads, capacity, format);
    if (std::max(keys, values) > limit)
      throw Error(Code::unsupported,
                  "a context of " + std::to_string(context) + " tokens takes " +
                      std::to_string(std::max(keys, values)) +
                      " bytes of keys a layer, a binding of this device reaches " + std::to_string(limit),
                  "context", "use a smaller context");
    const uint64_t value_offset = align_up(keys, kViewAlignment);
    ops::CacheView& cache = layers.emplace_back(ops::CacheView{{}, {}, capacity, format, {}});
    cache.keys.bytes = keys;
    cache.values.offset = value_offset;
    cache.values.bytes = values;
    bytes_ += value_offset + values;
    part_bytes = std::max(part_bytes, ops::part_bytes(model.device->plan(), heads, capacity, pass_tokens));
  }
  allocate(model);
  if (part_bytes == 0) return;
  parts.emplace_back(model.device, "parts", part_bytes, Memory::device);
  for (ops::CacheView& layer : layers) layer.parts = parts.back();
}

// As few buffers as there is sense in: a device has a limit on their number, and its sessions share it.
void KvCache::allocate(const Model& model) {
  constexpr uint64_t kLargest = uint64_t{256} << 20;  // of a buffer with several layers
  const auto end = [](const ops::CacheView& layer) {
    return align_up(layer.values.offset + layer.values.bytes, kViewAlignment);
  };
  buffers.reserve(layers.size());  // the views point to them
  for (size_t first = 0, last = 0; first < layers.size(); first = last) {
    uint64_t bytes = 0;
    for (; last < layers.size() && (last == first || bytes + end(layers[last]) <= kLargest); ++last) {
      const uint64_t own = end(layers[last]);
      layers[last].keys.offset += bytes;
      layers[last].values.offset += bytes;
      bytes += own;
    }
    buffers.emplace_back(model.device, "kv " + std::to_string(first), bytes, Memory::device);
    for (size_t i = first; i < last; ++i) layers[i].keys.buffer = layers[i].values.buffer = &buffers.back();
  }
}

bool KvCache::holds(const Config& config, uint64_t position, uint64_t written) const {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const uint64_t window = config.positions[layer].window, capacity = layers[layer].capacity;
    const uint64_t first = window ? position + 1 - std::min<uint64_t>(position + 1, window) : 0;  // that it sees
    if (position > 0 && first + capacity < written) return false;
  }
  return true;
}

}  // namespace weft
