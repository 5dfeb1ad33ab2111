#include "model/activations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/filter.h"

namespace weft {
namespace {

void zero(const Buffer& buffer) { std::memset(buffer.data(), 0, buffer.bytes()); }

uint64_t rope_table_bytes(size_t pairs, uint32_t positions) {
  return std::max<uint64_t>(uint64_t{positions} * pairs * 2, 2) * 4;  // a binding is never empty
}

Buffer make_rope_table(const Rope& rope, uint32_t context, uint32_t positions, uint32_t first,
                       const std::shared_ptr<Device>& device) {
  std::vector<RopePosition> all(positions);
  for (uint32_t i = 0; i < positions; ++i) all[i] = {first + i, first + i, first + i};
  std::vector<float> values = rope.rows(context, all);
  values.resize(rope_table_bytes(rope.frequencies.size(), positions) / 4);
  Buffer table(device, "rope table", values.size() * 4, Memory::device);
  Uploader(device).upload(table, std::span<const float>(values));
  return table;
}

// The rows and columns of each.
struct Extent {
  View Activations::*view;
  uint32_t rows;
  uint64_t cols;
  uint64_t row_bytes() const { return uint64_t{stride_of(static_cast<uint32_t>(cols))} * 4; }
};

std::vector<Extent> extents(const Config& config, const Plan& plan, uint32_t candidate_stride, uint32_t tokens,
                            uint32_t sampled) {
  const uint32_t convolved = config.has_mixer<ShortConvConfig>() ? config.width : 0;
  ops::LinearShape linear = {};  // all such layers of a model have the same one
  for (const LayerConfig& layer : config.layer_configs)
    if (const ops::LinearShape* own = linear_shape(layer.mixer)) linear = *own;
  uint32_t queries = config.query_dim(), qkv = queries + 2 * config.kv_dim();
  for (const LayerConfig& layer : config.layer_configs)
    if (const auto* attention = std::get_if<AttentionConfig>(&layer.mixer)) {
      const ops::HeadShape& shape = config.shape_of(*attention);
      queries = std::max(queries, shape.heads * shape.head_dim);
      qkv = std::max(qkv, (shape.heads + 2 * shape.kv_heads) * shape.head_dim);
    }
  const AttentionGate gate = config.layer_kind.attention_gate;
  const uint32_t gates = gate == AttentionGate::values  ? queries
                         : gate == AttentionGate::heads ? config.heads.heads
                                                        : 0;
  const uint32_t ffn = config.has_dense() ? config.ffn : 0;
  const auto of_experts = [&](uint32_t cols) { return uint64_t{config.experts.used} * stride_of(cols); };
  const bool matrices = ops::uses_matrices(plan) && !ops::can_fuse(plan, tokens);
  const uint32_t widest = std::max({config.width, queries, ffn, linear.values()});
  const uint64_t head_words = config.head ? config.head->scratch_bytes(config.vocab) / 4 : 0;
  return {{&Activations::x, tokens, config.width},
          {&Activations::normed, tokens, config.width},
          {&Activations::begun, tokens, ops::begun_stride(config.width)},
          {&Activations::rotated, tokens, config.width},
          {&Activations::qkv, tokens, qkv},
          {&Activations::q, tokens, queries},
          {&Activations::attended, tokens, queries},
          {&Activations::gates, tokens, gates},
          {&Activations::conv_gates, tokens, 3 * convolved},
          {&Activations::convolved, tokens, convolved},
          {&Activations::projected, tokens, linear.projected_cols()},
          {&Activations::prepared, tokens, linear.prepared_cols()},
          {&Activations::scanned, tokens, linear.values()},
          {&Activations::layer_inputs, tokens, config.layers * config.layer_input},
          {&Activations::layer_gate, tokens, config.layer_input},
          {&Activations::sound, config.bands ? SoundInput::kTaps * tokens : 0, config.bands ? config.width : 0},
          {&Activations::gate_up, tokens, (config.layer_kind.gated ? 2 : 1) * ffn},
          {&Activations::inner, tokens, ffn},
          {&Activations::routing, tokens, config.experts.count},
          {&Activations::chosen, tokens, config.experts.used * sizeof(abi::RoutedExpert) / 4},
          {&Activations::expert_gate_up, tokens, of_experts(2 * config.expert_ffn)},
          {&Activations::expert_inner, tokens, of_experts(config.expert_ffn)},
          {&Activations::shared_gate, tokens, config.layer_kind.shared_expert == SharedExpert::gated},
          {&Activations::halves, tokens, matrices ? ops::halves_stride(widest) : 0},
          {&Activations::logits, sampled, config.vocab},
          {&Activations::head, 1, head_words},
          {&Activations::scores, sampled, ops::score_bytes(config.vocab) / 4},
          {&Activations::candidates, sampled, candidate_stride * sizeof(abi::Candidate) / 4}};
}

void check_positions(const Config& config, uint32_t context) {
  if (config.has_position_table() && context > config.context)
    throw Error(Code::unsupported,
                "a context of " + std::to_string(context) + " tokens, the model has " + std::to_string(config.context) +
                    " positions",
                "context", "use a smaller context");
}

}  // namespace

uint32_t candidate_stride(const Plan& plan, const Matrix& table) {
  const uint32_t most = std::max(ops::candidate_count(table.rows), ops::best_count(plan, table));
  constexpr uint32_t kWords = sizeof(abi::Candidate) / 4;
  return stride_of(most * kWords) / kWords;
}

uint64_t activation_bytes(const Config& config, const Plan& plan, uint32_t candidate_stride, uint32_t tokens,
                          uint32_t sampled) {
  uint64_t bytes = 0;
  for (const Extent& part : extents(config, plan, candidate_stride, tokens, sampled))
    bytes += part.rows * part.row_bytes();
  return bytes;
}

ActivationBuffers::ActivationBuffers(const Model& model, uint32_t tokens, uint32_t sampled) {
  uint64_t bytes = 0;
  for (const Extent& part : extents(model.config, model.device->plan(), candidate_stride(model), tokens, sampled)) {
    parts_.push_back({part.view, part.row_bytes()});
    this->*part.view = View();
    (this->*part.view).offset = bytes;
    (this->*part.view).bytes = part.rows * part.row_bytes();
    bytes += part.rows * part.row_bytes();
  }
  buffer = Buffer(model.device, "activations", bytes, Memory::device);
  for (const Part& part : parts_) (this->*part.view).buffer = &buffer;
  // The products read the padding after a row's columns. It must be zero, and nothing ever writes to it.
  run_once(model.device, "clear activations", [&](Recorder& recorder) { recorder.fill(buffer, 0); });
}

Activations ActivationBuffers::rows(uint32_t row, uint32_t count) const {
  Activations some;
  for (const Part& part : parts_)
    some.*part.view = (this->*part.view).part(row * part.row_bytes, count * part.row_bytes);
  return some;
}

StepBuffers::StepBuffers(const Model& model, uint32_t context, uint32_t table_positions, uint32_t first_position) {
  check_positions(model.config, context);
  const std::shared_ptr<Device>& device = model.device;
  state = StepState(device, "state", context);
  params = Buffer(device, "sampling", sizeof(abi::SampleParams), Memory::shared);
  history = Buffer(device, "history", uint64_t{context} * 4, Memory::shared);
  rows = model.config.vocab;
  token_flags = Buffer(device, "token flags", uint64_t{TOKEN_FLAG_WORDS(rows)} * 4, Memory::shared);
  ring = Buffer(device, "ring", RING * sizeof(abi::RingEntry), Memory::readback);
  logprobs = Buffer(device, "logprobs", RING * sizeof(abi::TokenLogprobs), Memory::readback);
  for (const Buffer* buffer : {&params, &history, &token_flags, &ring, &logprobs}) zero(*buffer);
  for (const Rope& rope : model.config.ropes)
    rope_tables.push_back(make_rope_table(rope, context, table_positions, first_position, device));
}

uint64_t step_bytes(const Config& config, uint32_t context, uint32_t table_positions) {
  check_positions(config, context);
  uint64_t bytes = sizeof(abi::StepState) + sizeof(abi::SampleParams) + uint64_t{context} * 4 +
                   uint64_t{TOKEN_FLAG_WORDS(config.vocab)} * 4 +
                   RING * (sizeof(abi::RingEntry) + sizeof(abi::TokenLogprobs));
  for (const Rope& rope : config.ropes)
    bytes += rope_table_bytes(rope.frequencies_for(context).size(), table_positions);
  return bytes;
}

uint64_t StepBuffers::bytes() const {
  uint64_t sum = state.bytes();
  for (const Buffer* buffer : {&params, &history, &token_flags, &ring, &logprobs}) sum += buffer->bytes();
  for (const Buffer& buffer : rope_tables) sum += buffer.bytes();
  return sum;
}

}  // namespace weft
