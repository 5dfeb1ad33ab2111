#include "run/assistant.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "model/assistant.h"
#include "run/schedule.h"

namespace weft {
namespace {

Model load(const Model& target, const ModelFile& file) {
  target.weights.need_all_rows("draft");
  Config config = read_assistant_config(file);
  check_weights(file, config);
  fit_assistant(config, target.config, file);
  Weights weights = load_weights(target.device, file, config, {}, {});
  if (weights.stream)
    throw Error(Code::out_of_memory, "the drafter's layers do not fit in the memory budget", file.path.string(),
                "give a larger budget");
  return {target.device, config, std::move(weights)};
}

}  // namespace

AssistantNetwork::AssistantNetwork(const Model& target, const ModelFile& file, uint32_t context)
    : target_(target),
      model_(load(target, file)),
      activations_(model_, 1),
      step_(model_, context, context, 1),
      token_at_(target.device, "drafter's token state", 1),
      pool_(target.device) {
  const std::shared_ptr<Device>& device = target.device;
  const uint32_t width = target.config.width;
  const auto floats = [&](const char* name, uint32_t cols) {
    return Buffer(device, name, uint64_t{stride_of(cols)} * 4, Memory::device);
  };
  token_at_.begin(0, 1);
  token_ = Buffer(device, "drafter's token", sizeof(uint32_t), Memory::shared);
  state_ = floats("drafter's state", width);
  rotated_ = floats("drafter's embedding", width);
  input_ = floats("drafter's input", 2 * width);
  greedy_ = Buffer(device, "drafter's sampling", sizeof(abi::SampleParams), Memory::shared);
  *greedy_.as<abi::SampleParams>() = {};
  guess_ = Buffer(device, "drafter's guess", sizeof(abi::Guess), Memory::device);
  guesses_ = Buffer(device, "drafter's guesses", kMostDrafted * sizeof(abi::Guess), Memory::readback);
  // The products read the padding after a row's columns.
  run_once(device, "clear the drafter", [&](Recorder& r) {
    for (const Buffer* buffer : {&state_, &rotated_, &input_}) r.fill(*buffer, 0);
  });
}

void AssistantNetwork::begin(uint32_t id, size_t position) {
  // Attention sees the keys up to its token's own place. The last one that is there lies one before the token.
  step_.state.begin(position - 1, position);
  *token_.as<uint32_t>() = id;
}

const CommandBuffer& AssistantNetwork::take(const View& hidden) {
  const Place place = {hidden.buffer->handle(), hidden.offset};
  if (const auto found = taken_.find(place); found != taken_.end()) return found->second;
  const auto copy = [&](Recorder& r) { r.copy(hidden.part(0, uint64_t{target_.config.width} * 4), state_); };
  return taken_.emplace(place, record_commands(pool_, "drafter's state", copy)).first->second;
}

const CommandBuffer& AssistantNetwork::guess(uint32_t count, const ContextState& context) {
  if (const auto found = guessed_.find(count); found != guessed_.end()) return found->second;
  const auto record = [&](Recorder& r) { this->record(r, count, context); };
  return guessed_.emplace(count, record_commands(pool_, "drafter", record)).first->second;
}

void AssistantNetwork::record(Recorder& r, uint32_t count, const ContextState& context) const {
  const Pass pass = {model_, activations_, step_, context, 1};
  for (uint32_t i = 0; i < count; ++i) {
    read_input(r);
    record_input(r, pass);
    for (uint32_t layer = 0; layer < model_.config.layers; ++layer) record_layer(r, pass, layer);
    choose(r);
    r.copy(guess_, View(guesses_).part(i * sizeof(abi::Guess), sizeof(abi::Guess)));
    if (i + 1 == count) break;
    r.copy(View(guess_).part(offsetof(abi::Guess, id), sizeof(uint32_t)), token_);
    ops::matmul(r, model_.weights.assistant->out, step_.state, activations_.normed, state_, 1, ops::Output::write);
  }
}

// x = in (embedding of the token, state).
void AssistantNetwork::read_input(Recorder& r) const {
  const Matrix& table = target_.weights.embedding->matrix();
  const bool rotated = table.layout == Layout::planes;
  const uint64_t width_bytes = uint64_t{target_.config.width} * 4;
  const View embedding = View(input_).part(0, uint64_t{stride_of(target_.config.width)} * 4);
  ops::gather(r, table, token_at_, token_, rotated ? View(rotated_) : embedding, 1, target_.config.embedding_scale);
  if (rotated) ops::rotate_back(r, table, rotated_, embedding, 1);
  r.copy(View(state_).part(0, width_bytes), View(input_).part(width_bytes, width_bytes));
  ops::matmul(r, model_.weights.assistant->in, step_.state, input_, activations_.x, 1, ops::Output::write);
}

// The best row of the drafter's own table, and its share of the mass.
void AssistantNetwork::choose(Recorder& r) const {
  const Activations& a = activations_;
  const Config& c = model_.config;
  const Matrix& table = model_.weights.output_table().matrix();
  ops::rotate_normed(r, table, c.norm(), step_.state, a.x, model_.weights.final_norm, a.normed, a.rotated, 1, true);
  ops::project(r, table, a.rotated, a.logits, 1);
  ops::sample(r, step_.state, greedy_, a.logits, a.candidates, {c.vocab});
  ops::best(r, a.logits, c.vocab, a.candidates, candidate_stride(model_), guess_, 1, 1);
}

}  // namespace weft
