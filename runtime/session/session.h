// One conversation over a model: its context, its caches, and the loop that decodes.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"
#include "model/encoder.h"
#include "model/schedule.h"
#include "vocab/head.h"

namespace weft {

// As weft_sampling in weft.h, which documents it.
struct Sampling {
  float temperature = 0.7f;
  uint32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1;
  uint64_t seed = 0;
  float presence_penalty = 0, frequency_penalty = 0;
  float typical_p = 1;
};

enum class Stop { length, token, context, caller, grammar };

struct SessionStats {
  uint64_t prompt_tokens = 0, reused_tokens = 0, decoded_tokens = 0;
  double prompt_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
  uint64_t readback_bytes = 0;
  double decode_cpu_seconds = 0;             // of the thread that generates, without its callbacks
  double decode_bytes = 0;                   // weights and cache read by the decoded tokens
  uint64_t head_tokens = 0;                  // tokens of every kind that were chosen
  double head_bytes = 0;                     // read for them of the vocabulary table
  uint64_t head_rows = 0, head_refined = 0;  // rows whose logits were computed; whose estimates were refined
  uint64_t head_uncertain = 0;               // of them, those for which fast left out a row that might have been chosen
  std::vector<Timestamps::Stage> stages;     // device time of the sampled tokens, summed
  uint64_t sampled_tokens = 0;               // so many
  double gap_seconds = 0;                    // of them, between command buffers
};

// How likely the model itself held a token to be, and what it held for the likeliest: natural logarithms.
struct Logprobs {
  float chosen = 0;
  std::vector<std::pair<uint32_t, float>> likeliest;  // ids, the likeliest first
};

struct TokenLogit {
  uint32_t id;
  float logit;
};

// One thread at a time; cancel() from anywhere.
class Session {
 public:
  // stop_ids: at most MAX_STOP_IDS; the model outlives the session.
  Session(const Model& model, uint32_t context, std::vector<uint32_t> stop_ids, Format cache = Format::f16,
          Policy policy = Policy::throughput);
  ~Session();

  void set_sampling(const Sampling& sampling);  // throws Error(invalid_argument)
  const Sampling& sampling() const { return sampling_; }
  // Added to the tokens' logits wherever a token is chosen; replaces what was set before. Throws
  // Error(invalid_argument).
  void set_bias(std::span<const uint32_t> ids, std::span<const float> biases);
  // How many of the likeliest tokens logprobs() names, at most MAX_LOGPROBS; 0: there are none. Throws
  // Error(invalid_argument).
  void set_logprobs(uint32_t count);
  // Of the token that on_token was told last.
  const Logprobs& logprobs() const { return logprobs_; }
  // Which rows tokens are chosen from, and how they are projected; from the next generate on.
  void set_head(Head head);
  const Head& head() const { return head_; }

  // Keeps what is generated behind the next prompt, or from now on, to the matcher's grammar; none: anything goes. The
  // matcher's trie is of the model's tokenizer.
  void set_matcher(std::unique_ptr<Matcher> matcher);

  // Makes the context these ids, keeping what is computed of their common prefix. Throws Error(invalid_argument) for
  // an empty list or an id outside the vocabulary, Error(context_full).
  // Of an encoder-decoder the ids go to the encoder, and the context is the decoder's: its start token and `begun`.
  void prompt(std::span<const uint32_t> ids, std::span<const uint32_t> begun = {});

  // on_token returns false to stop. Throws Error(invalid_argument) without a prompt.
  Stop generate(uint32_t max_tokens, bool ignore_stop_tokens, const std::function<bool(uint32_t id)>& on_token);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }  // lock-free: safe in a signal handler

  // Negative log-likelihoods of ids[1 ..]; replaces the context. Throws Error(unsupported) for an encoder-decoder.
  std::vector<float> score(std::span<const uint32_t> ids);
  std::vector<float> logits();            // after the context's last token
  std::vector<TokenLogit> head_logits();  // those the head computes, in no order
  void reset();

  // Writes the context, its cache and the sampling to a file (session_file.cpp); note: UTF-8 text that is kept with
  // them. Throws Error(invalid_argument) without a prompt, Error(io).
  void save(const std::filesystem::path& path, std::string_view note) const;
  // Makes the session one that was saved, with its sampling; a grammar begins anew. Returns the note. Throws
  // Error(bad_file) for what is no saved session, Error(unsupported) for one of another model, type or context; then
  // nothing is changed.
  std::string restore(const std::filesystem::path& path);

  const std::vector<uint32_t>& ids() const { return ids_; }
  uint32_t context() const { return context_; }
  Policy policy() const { return policy_; }
  const Flights& flights() const { return schedule_.flights(); }
  const SessionStats& stats() const { return stats_; }
  uint64_t kv_bytes() const { return cache_.bytes() + (source_ ? source_->cache().bytes() : 0); }
  uint64_t scratch_bytes() const {
    return activations_.bytes() + step_.bytes() + cache_.scratch_bytes() +
           (head_buffers_ ? head_buffers_->bytes() : 0) +
           (source_ ? source_->scratch_bytes() + source_->cache().scratch_bytes() : 0);
  }

  friend class BatchRun;  // session/batch.cpp
  friend class Profiler;  // session/profile.cpp

 private:
  using Clock = std::chrono::steady_clock;
  // A generate under way.
  struct Run {
    static constexpr size_t kNone = SIZE_MAX;
    Clock::time_point begin, first_token;
    double cpu_begin = 0, cpu_callbacks = 0;  // the thread's, at the first token; within callbacks since
    Tail tail = Tail::none;
    TailHead head;
    size_t fresh = 0;            // prompt tokens that were not cached
    size_t wanted = 0;           // tokens at most
    Stop at_end = Stop::length;  // when they are there
    size_t submitted = 0, received = 0;
    size_t timed = kNone;  // the token of a timed pass in flight
  };
  // Submits the prompt, with the first token to come; or says why there is none. in_batch: not where one token is left
  // to compute, which the batch does.
  std::optional<Stop> start(Run& run, uint32_t max_tokens, bool ignore_stop_tokens, bool in_batch);
  void note_submitted(Run& run);
  // Reads a token, whose pass has finished; returns why it was the last. lanes: sessions in the pass.
  std::optional<Stop> receive(Run& run, uint32_t lanes, const std::function<bool(uint32_t id)>& on_token);
  void finish(const Run& run);
  void check_ids(std::span<const uint32_t> ids, size_t most) const;
  void set_context(std::span<const uint32_t> ids);
  void keep_cached(size_t most);
  void read_input();
  void begin(bool ignore_stop_tokens);
  bool run_prompt(Tail tail, const TailHead& head, bool cancellable);
  Tail sampling_tail() const;
  abi::SampleParams sample_params() const;
  void set_cut(abi::SampleParams& params) const;
  void write_marks();
  void read_logprobs();
  TailHead begin_head();
  TailHead next_head(const TailHead& head);
  void need_head_buffers();
  void write_kept();
  void write_mask(std::span<const uint32_t> bits);
  double count_head(const abi::RingEntry& entry, uint32_t lanes);
  std::vector<View> cache_parts(uint64_t cached, uint64_t written) const;
  void come_to_rest() noexcept;
  void collect_times();
  double body_bytes_at(size_t position, uint32_t lanes) const;
  double cache_bytes_at(size_t position) const;

  const Model& model_;
  uint32_t context_;
  Policy policy_;
  std::vector<uint32_t> stop_ids_;
  Activations activations_;
  KvCache cache_;  // before the rest of what grows with the context: it knows the device's limit
  StepBuffers step_;
  std::unique_ptr<Source> source_;  // of an encoder-decoder
  std::vector<uint32_t> input_;     // what it is to have read before the next token
  Schedule schedule_;
  Sampling sampling_;
  Head head_;
  std::unique_ptr<HeadBuffers> head_buffers_;  // made by the first head that needs them
  uint64_t positions_ = 0;                     // rows that can be chosen at present
  std::vector<uint32_t> kept_ids_, kept_;      // the keep-list's ids, and bits for them; empty: there is none
  std::unique_ptr<Matcher> matcher_;
  std::vector<uint32_t> ids_;  // the context
  size_t prompt_end_ = 0;      // from there on it was generated
  size_t cached_ = 0;          // positions of it in the cache
  size_t written_ = 0;         // positions before it may have overwritten older ones in the cache's rings
  std::vector<std::pair<uint32_t, float>> biases_;  // as they were set, one a token
  float most_bias_ = 0;                             // at least 0
  uint32_t logprob_count_ = 0;
  Logprobs logprobs_;     // of the last token
  bool partial_ = false;  // the device counts what the head reads
  std::atomic<bool> cancelled_ = false;
  SessionStats stats_;
};

}  // namespace weft
