#include "session/profile.h"

#include <algorithm>
#include <mutex>
#include <string_view>

#include "base/error.h"

namespace weft {

class Profiler {
 public:
  Profiler(Session& session, uint32_t tokens)
      : session_(session), model_(session.model_), pool_(model_.device), fence_(model_.device) {
    if (session.ids_.empty()) throw Error(Code::invalid_argument, "the session has no prompt", "profile");
    if (tokens == 0) throw Error(Code::invalid_argument, "it is 0, expected at least 1", "tokens");
    tokens_ = static_cast<uint32_t>(std::min<size_t>({tokens, session.schedule_.chunk_tokens(), session.ids_.size()}));
    if (session.ids_.size() >= session.context_)
      throw Error(Code::context_full, "the session's context is full, and the token after it must have room", "context",
                  "create the session with a larger context");
    if (!model_.device->caps().timestamps)
      throw Error(Code::unsupported, "the device has no timestamps", model_.device->caps().name);
    model_.weights.wait();
  }

  // Makes the context one of so many tokens, and one more that is not computed.
  static void pretend(Session& session, uint32_t position) {
    if (position > session.context_ - 2)
      throw Error(Code::context_full,
                  "the token at position " + std::to_string(position) + " and one more do not fit in a context of " +
                      std::to_string(session.context_),
                  "position");
    if (session.source_) throw Error(Code::unsupported, "an encoder-decoder's token sees its input too", "model");
    session.reset();
    session.ids_.assign(size_t{position} + 1, 0);
    session.prompt_end_ = session.ids_.size();
    run_once(session.model_.device, "zeros", [&](Recorder& r) {
      for (const Buffer& buffer : session.cache_.buffers) r.fill(buffer, 0);
    });
    session.cached_ = position;
    session.written_ = position;
  }

  PassProfile run(uint32_t repeat) {
    try {
      compute_what_is_before();
      record();
      std::vector<PassProfile> runs;
      for (uint32_t i = 0; i <= repeat; ++i) {
        PassProfile one = time();
        if (i > 0) runs.push_back(std::move(one));  // the first one warms up
      }
      session_.cached_ = session_.ids_.size();
      std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.submitted < b.submitted; });
      return std::move(runs[runs.size() / 2]);
    } catch (...) {
      session_.come_to_rest();
      throw;
    }
  }

 private:
  uint32_t first() const { return static_cast<uint32_t>(session_.ids_.size()) - tokens_; }

  void write_state(size_t pos, size_t end) {
    abi::StepState& state = *session_.step_.state.as<abi::StepState>();
    state.pos = static_cast<uint32_t>(pos);
    state.end = static_cast<uint32_t>(end);
    state.finished = 0;
  }

  // The cache up to the pass's first token; it may be there already.
  void compute_what_is_before() {
    session_.keep_cached(first());
    session_.begin(true);
    write_state(session_.cached_, first());
    while (session_.cached_ < first()) {
      session_.schedule_.submit(session_.schedule_.chunk_tokens(), Tail::none);
      session_.cached_ = std::min<size_t>(session_.cached_ + session_.schedule_.chunk_tokens(), first());
    }
    session_.schedule_.wait_all();
    session_.written_ = std::max(session_.written_, session_.ids_.size());
  }

  // As the schedule does, with a mark behind every dispatch.
  void record() {
    const Config& config = model_.config;
    // As the schedule counts; a product may take a dispatch for each token of a chunk.
    const uint32_t marks = 64 + 16 * config.experts.used + 16 * (pass_tokens() - 1);
    timestamps_ = std::make_unique<Timestamps>(model_.device, marks * (config.layers + 4));
    const TailHead head = session_.next_head(session_.begin_head());
    partial_ = head.partial != nullptr;
    const Pass pass = {model_,          session_.activations_, session_.step_,
                       session_.cache_, pass_tokens(),         session_.source_ ? &session_.source_->cache() : nullptr};
    const auto add = [&](const char* name, bool host_reads, const std::function<void(Recorder&)>& commands) {
      Recorder recorder(pool_, name, timestamps_.get());
      commands(recorder);
      commands_.push_back(recorder.finish(host_reads));
    };
    add("embed", false, [&](Recorder& r) { record_embed(r, pass); });
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      add("layer", false, [&](Recorder& r) { record_layer(r, pass, layer); });
    add("tail", true, [&](Recorder& r) { record_tail(r, pass, session_.sampling_tail(), head); });
  }

  uint32_t pass_tokens() const { return tokens_ == 1 ? 1 : session_.schedule_.chunk_tokens(); }

  PassProfile time() {
    write_state(first(), session_.ids_.size());
    std::vector<const CommandBuffer*> list;
    for (const CommandBuffer& one : commands_) list.push_back(&one);
    const auto start = std::chrono::steady_clock::now();
    {  // as a pass of a streamed model has to be
      const auto& stream = model_.weights.stream;
      const auto lock = stream ? std::unique_lock(stream->order) : std::unique_lock<std::mutex>();
      model_.device->submit(list, fence_);
    }
    fence_.wait();
    PassProfile profile;
    profile.submitted = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    profile.tokens = tokens_;
    profile.position = first();
    profile.between = timestamps_->gaps();
    for (const Timestamps::Stage& stage : timestamps_->read())
      profile.stages.push_back(
          {stage.name, stage.seconds, stage.dispatches, bytes_of(stage.name), multiplies_of(stage.name)});
    return profile;
  }

  // What the products of the layers share is not told apart: it is the row `matmul`.
  template <typename Of>
  double layers(Of of) const {
    double sum = 0;
    for (const LayerWeights& layer : model_.weights.layers) {
      for (const Matrix* matrix : {&layer.qkv, &layer.out, &layer.cross_q, &layer.cross_out, &layer.router})
        if (matrix->view.buffer) sum += of(*matrix);
      if (model_.config.experts.count == 0) sum += of(layer.gate_up) + of(layer.down);
    }
    return sum;
  }
  template <typename Of>
  double experts(Of of) const {
    double sum = 0;
    if (model_.config.experts.count > 0)
      for (const LayerWeights& layer : model_.weights.layers)
        sum += model_.config.experts.used * (of(layer.gate_up) + of(layer.down));
    return sum;
  }
  static double matrix_bytes(const Matrix& matrix) { return static_cast<double>(matrix.bytes()); }
  static double elements(const Matrix& matrix) { return double{1} * matrix.rows * matrix.cols; }

  // Of one reading: a prompt's products may read their weights once for each group of tokens.
  double bytes_of(std::string_view stage) const {
    if (stage == "matmul") return layers(matrix_bytes);
    if (stage == "matmul_expert") return experts(matrix_bytes) * tokens_;  // each token has its own
    if (stage == "project" && !partial_) return matrix_bytes(model_.weights.head().matrix());
    if (stage == "attend") return session_.cache_bytes_at(session_.ids_.size());
    return 0;
  }
  double multiplies_of(std::string_view stage) const {
    if (stage == "matmul") return layers(elements) * tokens_;
    if (stage == "matmul_expert") return experts(elements) * tokens_;
    if (stage == "project" && !partial_) return elements(model_.weights.head().matrix());
    return 0;
  }

  Session& session_;
  const Model& model_;
  uint32_t tokens_;
  bool partial_ = false;  // the head reads a part of the table
  CommandPool pool_;
  std::unique_ptr<Timestamps> timestamps_;
  std::vector<CommandBuffer> commands_;
  Fence fence_;  // waits before what it needs goes
};

PassProfile profile_pass(Session& session, uint32_t tokens, uint32_t repeat) {
  return Profiler(session, tokens).run(std::max(repeat, 1u));
}

PassProfile profile_behind(Session& session, uint32_t position, uint32_t repeat) {
  Profiler::pretend(session, position);
  PassProfile profile = Profiler(session, 1).run(std::max(repeat, 1u));
  session.reset();
  return profile;
}

}  // namespace weft
