// One conversation over a model: its context, its caches, and the loop that decodes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/schedule.h"

namespace weft {

// As weft_sampling in weft.h, which documents it.
struct Sampling {
  float temperature = 0.7f;
  uint32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1;
  uint64_t seed = 0;
};

enum class Stop { length, token, context, caller };

struct SessionStats {
  uint64_t prompt_tokens = 0, decoded_tokens = 0;
  double prompt_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
  uint64_t readback_bytes = 0;
  double decode_bytes = 0;                // weights and cache read by the decoded tokens
  std::vector<Timestamps::Stage> stages;  // device time of the sampled tokens, summed
};

// One thread at a time; cancel() from anywhere.
class Session {
 public:
  // stop_ids: at most MAX_STOP_IDS; the model outlives the session.
  Session(const Model& model, uint32_t context, std::vector<uint32_t> stop_ids);
  ~Session();

  void set_sampling(const Sampling& sampling);  // throws Error(invalid_argument)
  const Sampling& sampling() const { return sampling_; }

  // Makes the context these ids, keeping what is computed of their common prefix. Throws Error(invalid_argument) for
  // an empty list or an id outside the vocabulary, Error(context_full).
  void prompt(std::span<const uint32_t> ids);

  // on_token returns false to stop. Throws Error(invalid_argument) without a prompt.
  Stop generate(uint32_t max_tokens, bool ignore_stop_tokens, const std::function<bool(uint32_t id)>& on_token);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }  // lock-free: safe in a signal handler

  // Negative log-likelihoods of ids[1 ..]; replaces the context.
  std::vector<float> score(std::span<const uint32_t> ids);
  std::vector<float> logits();  // after the context's last token
  void reset();

  const std::vector<uint32_t>& ids() const { return ids_; }
  uint32_t context() const { return context_; }
  const SessionStats& stats() const { return stats_; }
  uint64_t kv_bytes() const { return cache_.bytes(); }
  uint64_t scratch_bytes() const { return activations_.bytes() + step_.bytes(); }

 private:
  void check_ids(std::span<const uint32_t> ids, size_t most) const;
  void begin(bool ignore_stop_tokens);
  bool run_prompt(Tail tail, bool cancellable);
  Tail sampling_tail() const;
  void come_to_rest() noexcept;
  void collect_times();
  double decode_bytes_at(size_t position) const;

  const Model& model_;
  uint32_t context_;
  std::vector<uint32_t> stop_ids_;
  Activations activations_;
  KvCache cache_;  // before the rest of what grows with the context: it knows the device's limit
  StepBuffers step_;
  Schedule schedule_;
  Sampling sampling_;
  std::vector<uint32_t> ids_;  // the context
  size_t cached_ = 0;          // positions of it in the cache
  std::atomic<bool> cancelled_ = false;
  SessionStats stats_;
};

}  // namespace weft
