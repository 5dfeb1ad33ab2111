// One conversation over a model: its context, its caches, and the loop that decodes.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/adapter.h"
#include "model/kept_context.h"
#include "run/assistant.h"
#include "run/encoder.h"
#include "run/medusa.h"
#include "run/schedule.h"
#include "session/drafter.h"
#include "session/pass_costs.h"
#include "session/pictures.h"
#include "session/sampling.h"
#include "session/soft.h"
#include "session/vocab_head_setup.h"

namespace weft {

// A hidden state of the context (run/lens.h), and what the final norm and the vocabulary table make of it.
struct LensRow {
  uint32_t layer, position;
  std::span<const float> hidden;  // (width)
  std::span<const float> logits;  // (vocab); empty if they are not wanted
};
struct LensRange {
  size_t first = 0, count = 0;   // positions
  std::vector<uint32_t> layers;  // in the order in which the rows of a position come
  bool logits = true;
};

// A head of a decoder layer's attention to the encoder.
struct SourceHead {
  uint32_t layer, head;
};

enum class Stop { length, token, context, caller, grammar };

struct SessionStats {
  uint64_t prompt_tokens = 0, reused_tokens = 0, decoded_tokens = 0;
  double prompt_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
  uint64_t readback_bytes = 0;
  double decode_cpu_seconds = 0;             // of the thread that generates, without its callbacks
  double decode_bytes = 0;                   // weights and cache read by the decoded tokens
  uint64_t head_tokens = 0;                  // tokens that were chosen, with the first after a prompt
  double head_bytes = 0;                     // of the vocabulary table, read for them
  uint64_t head_rows = 0, head_refined = 0;  // rows whose logits were computed; whose estimates were refined
  std::vector<Timestamps::Stage> stages;     // device time of the tokens that were timed, summed
  uint64_t timed_tokens = 0;
  double gap_seconds = 0;                            // of these tokens, between command buffers
  uint64_t checks = 0;                               // passes that checked a draft
  uint64_t drafted_tokens = 0, accepted_tokens = 0;  // of these drafts
};

// Log-probabilities (natural) of the chosen token and of the likeliest ones, as the model gives them.
struct Logprobs {
  float chosen = 0;
  std::vector<std::pair<uint32_t, float>> likeliest;  // ids, the likeliest first
};

struct TokenLogit {
  uint32_t id;
  float logit;
};

// Values for every row, in the order of the ids; before a soft cap.
struct HeadEstimates {
  std::vector<float> logits, estimates;
  std::vector<float> bounds;  // infinity: computed at once
  float deviations = 0;       // between estimate and bound
};

// Settings that change together; what is not set stays as it is.
struct SettingsChange {
  struct Biases {
    std::span<const uint32_t> ids;
    std::span<const float> values;
  };
  std::optional<Sampling> sampling;
  std::optional<Biases> biases;
  std::optional<uint32_t> logprobs;
  std::optional<VocabHead> head;
  std::optional<std::unique_ptr<TokenRules>> matcher;
  std::optional<std::unique_ptr<Drafter>> drafter;
};

// Device time of one pass.
struct PassTimes {
  std::vector<Timestamps::Stage> stages;  // in order of first appearance
  double gaps = 0;                        // seconds between a command buffer's last dispatch and the next one's begin
  double submitted = 0;                   // seconds from before the submission until its end was seen
};

// One thread at a time; cancel() from anywhere.
class Session {
 public:
  using OnToken = std::function<bool(uint32_t id)>;    // returns false to stop
  using OnLens = std::function<bool(const LensRow&)>;  // likewise
  using OnSourceHead = std::function<void(std::span<float> weights)>;
  using OnPrompt = std::function<bool(size_t done, size_t all)>;  // tokens of the prompt; likewise
  class Generation;                                               // a generate() under way (generation.h)

  // stop_ids: at most MAX_STOP_IDS. The model must outlive the session. duty: the owner's limiter, which must outlive
  // the session; nullptr: the session's own. place: among sessions of the same model, context and type of cache.
  Session(const Model& model, uint32_t context, std::vector<uint32_t> stop_ids, const ops::CacheFormat& cache = {},
          Policy policy = Policy::throughput, Duty* duty = nullptr, StatePlace place = {});
  ~Session();

  // Settings hold from the next generate on. All throw Error(invalid_argument) for a value out of range.
  void set_sampling(const Sampling& sampling);
  const Sampling& sampling() const { return sampling_.sampling(); }
  // Added to the tokens' logits wherever a token is chosen; replaces what was set before.
  void set_bias(std::span<const uint32_t> ids, std::span<const float> biases) { sampling_.set_biases(ids, biases); }
  // How many of the likeliest tokens logprobs() names, at most MAX_LOGPROBS; 0: there are none.
  void set_logprobs(uint32_t count);
  const Logprobs& logprobs() const { return logprobs_; }  // of the token that on_token was told last
  // Which rows tokens are chosen from, and how they are projected.
  void set_head(VocabHead head) { on_device().head.set(std::move(head)); }
  const VocabHead& head() const { return on_device().head.head(); }
  // Makes the text after the next prompt, or from now on, follow the matcher's rules; nullptr: allows any text. A
  // grammar's trie must be of the model's tokenizer.
  void set_matcher(std::unique_ptr<TokenRules> matcher);
  // Checks several tokens in a pass if the drafter guesses them; nullptr: every token has its own pass. The tokens are
  // the same with and without it. With a grammar and a keep-list together nothing is drafted; in the shared passes of a
  // batch, only drafters that guess in batches are used.
  // Throws Error(unsupported) if other devices have rows of the vocabulary table, and for a model with an OutputHead.
  void set_drafter(std::unique_ptr<Drafter> drafter);
  // Changes several settings. If it throws, nothing has changed.
  void change(SettingsChange change);
  // Called before every prompt pass but the last, and with done == all before the first token; may be empty.
  void set_on_prompt(OnPrompt on_prompt) { on_prompt_ = std::move(on_prompt); }

  // Has the products of later calls use the adapter, which must outlive that; nullptr: none. The context is computed
  // again when it is next needed. Throws Error(invalid_argument) for an adapter of another model.
  void set_adapter(const Adapter* adapter);

  // Guesses of the heads from the state that the last token was chosen from. Call it during a generate(), with no pass
  // in flight.
  std::span<const abi::Guess> guess(MedusaHeads& heads);
  // The same of a drafter: `count` guesses, 1 to kMostDrafted, each of which follows the one before.
  std::span<const abi::Guess> guess(AssistantNetwork& drafter, uint32_t count);
  // Both have the kernels of guess() compiled.
  void prepare_guesses(MedusaHeads& heads);
  void prepare_guesses(AssistantNetwork& drafter);

  // Makes the context these ids, keeping what is computed of their common prefix. Throws Error(invalid_argument) for
  // an empty list or an id outside the vocabulary, Error(context_full).
  // An encoder-decoder reads the ids with its encoder; the context is the decoder's: its start token and `begun`.
  void prompt(std::span<const uint32_t> ids, std::span<const uint32_t> begun = {});

  // The same for a model that hears (Config::hears): frames as Encoder::hear has them, and the decoder's whole context.
  // Throws Error(invalid_argument) for a model that does not.
  void prompt_sound(std::shared_ptr<const std::vector<float>> frames, std::span<const uint32_t> ids);

  // The same for ids and rows of soft tokens. Throws Error(unsupported) for an encoder-decoder and for more rows than a
  // binding of the device reaches.
  void prompt_parts(std::span<const PromptPart> parts);

  // Makes the context longer by these ids, which are not checked against a grammar. Throws as prompt().
  void append(std::span<const uint32_t> ids);
  // Makes the context shorter by its last token, which was generated. A grammar cannot take a token back, so there must
  // be none. Throws Error(invalid_argument).
  void drop_last();

  // Copies what the other session has computed of both contexts' longest common prefix, if that is more than is
  // computed here. Returns the positions that are computed now: never the last one. The other may have passes in
  // flight. Copies nothing from a session with another adapter. Throws Error(invalid_argument) for a session of another
  // model, context or cache type.
  size_t copy_prefix(const Session& from);

  // Throws Error(invalid_argument) without a prompt.
  Stop generate(uint32_t max_tokens, bool ignore_stop_tokens, const OnToken& on_token);
  // Ends a generate under way, and later ones at their start, until clear_cancel(). A caller that generates several
  // times for one answer, or again after the device was lost, clears it when all of that has ended.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }  // lock-free: safe in a signal handler
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // Returns true if there was one.
  bool clear_cancel() { return cancelled_.exchange(false, std::memory_order_relaxed); }

  // Negative log-likelihoods of ids[1 ..]; replaces the context. Throws Error(unsupported) for an encoder-decoder.
  std::vector<float> score(std::span<const uint32_t> ids);
  std::vector<float> logits();            // after the context's last token
  std::vector<TokenLogit> head_logits();  // of the rows that the head computes, in no order
  // The head's estimates of the next token's logits (head_estimates.cpp). Throws Error(unsupported) if it makes none.
  HeadEstimates head_estimates();
  // Tells hidden states of the context, position by position (lens.cpp). False if on_row ended it. Throws
  // Error(invalid_argument) for a position after the context, or a layer that the model does not have.
  bool lens(const LensRange& range, const OnLens& on_row);
  // Tells how much each token of the context attends to each of the input's first `positions` positions, head after
  // head: (tokens, positions), whose rows sum to 1. It may change the weights. For encoder-decoders with a cache of
  // f16.
  void source_attention(std::span<const SourceHead> heads, size_t positions, const OnSourceHead& on_head);
  // Has lens() translate the states that logits are made of (model/tuned_lens.h); an empty path: no longer. Throws as
  // open_tuned_lens.
  void set_tuned_lens(const std::filesystem::path& folder);
  void reset();

  // Writes the context, its cache and the sampling to a file (session_file.cpp); note: UTF-8 text that is kept with
  // them. Throws Error(invalid_argument) without a prompt, Error(io).
  void save(const std::filesystem::path& path, std::string_view note) const;
  // The same; passes the file's bytes to `store`, part by part.
  void save(const std::function<void(std::span<const std::byte>)>& store, std::string_view note) const;
  // Restores a saved session with its sampling; a grammar begins anew. Returns the note. Throws Error(bad_file) if the
  // file is not a saved session, Error(unsupported) for one of another model, type or context; then nothing is changed.
  std::string restore(const std::filesystem::path& path);
  // The same from a file's bytes. place: a name for errors.
  std::string restore(std::span<const std::byte> file, const std::string& place);

  // After the device was lost: leave_device() gives up what lay on it, and enter_device() makes it anew on the device
  // that the model has then. The context is computed again when it is next needed; all settings stay. Until then every
  // call that needs the device throws Error(device_lost).
  void leave_device();
  void enter_device();

  // Times the pass of the context's last `tokens` tokens (at most a chunk) `count` times, as generate() would compute
  // it. The context stays as it is.
  std::vector<PassTimes> time_passes(uint32_t tokens, uint32_t count);
  // The same of a pass that checks the last ones as a draft after the first one; tokens: one of kDraftPasses.
  std::vector<PassTimes> time_checks(uint32_t tokens, uint32_t count);
  // Makes the context one of `count` tokens whose keys and values are zeros, and one more that is not computed.
  void set_blank_context(uint32_t count);

  const Model& model() const { return model_; }
  const std::vector<uint32_t>& ids() const { return ids_; }
  uint32_t context() const { return context_; }
  Policy policy() const { return policy_; }
  Duty& duty() const { return *duty_; }  // how much of the time its passes may take
  Stopwatch stopwatch() const { return Stopwatch({&duty_, 1}); }
  bool has_grammar() const { return matcher_ != nullptr; }
  bool has_partial_head() const { return on_device().head.partial(); }  // for the last token
  const SubmissionQueue& queue() const { return on_device().schedule.queue(); }
  const SessionStats& stats() const { return stats_; }
  size_t computed_tokens() const;  // of the context, from its beginning
  uint64_t kv_bytes() const;
  uint64_t scratch_bytes() const;
  double cache_bytes_at(size_t position) const;  // of the states that a token there reads

 private:
  struct OnDevice {
    OnDevice(const Model& model, uint32_t context, const ops::CacheFormat& cache, const StatePlace& place,
             Policy policy, Duty& duty);
    ActivationBuffers activations;
    KeptContext kept;  // before what else grows with the context: it checks the device's limit
    StepBuffers step;
    std::unique_ptr<Source> source;  // of an encoder-decoder
    VocabHeadSetup head;             // before the schedule, which waits when it is destroyed: passes read its buffers
    Buffer soft_rows;                // of the soft tokens, if there are any
    bool soft_written = true;        // soft_rows has those of the context
    std::vector<PlacedPicture> placed;  // whose positions the rope table has
    Buffer adapter_scratch;             // as AdapterUse has it; without bytes if there is no adapter
    Schedule schedule;
  };
  OnDevice& on_device() const;
  void set_context(std::span<const uint32_t> ids, std::span<const float> soft = {},
                   std::span<const PlacedPicture> pictures = {});
  void read_source();
  size_t source_positions() const { return sound_ ? model_.config.encoder->context : input_.size(); }
  void set_soft(std::span<const float> rows, std::span<const PlacedPicture> pictures = {});
  void write_soft();
  void write_positions();
  View soft_part(size_t layer) const;
  size_t soft_width() const { return size_t{model_.config.width} * (1 + model_.config.deepstack); }
  void record_adapter(OnDevice& device, const Adapter* adapter) const;
  AdapterUse adapter_use() const { return {adapter_, adapter_ ? View(on_device().adapter_scratch) : View()}; }
  bool ends_soft() const { return is_soft(ids_.back()); }
  void measure_costs();
  Tail begin(bool ignore_stop_tokens);
  Tail next_tail(const Tail& tail);
  bool more_than_a_pass() const;
  std::optional<TokenRange> pending_picture() const;
  void run_picture(const TokenRange& picture);
  void need_no_picture(const char* what) const;
  void check_pictures(std::span<const uint32_t> ids) const;
  size_t cached() const { return on_device().kept.tokens(); }  // positions of the context that are computed
  void run_chunk();
  bool run_prompt(const Tail& tail, const std::function<bool()>& go_on);
  template <class Work>
  void run(const Work& work);
  template <class Submit>
  std::vector<PassTimes> time(uint32_t tokens, uint32_t count, const Submit& submit);
  std::vector<float> compute_logits(Tail tail);
  std::vector<float> score_each();
  void drain() noexcept;

  const Model& model_;
  uint32_t context_;
  Policy policy_;
  ops::CacheFormat cache_format_;
  StatePlace place_;
  std::atomic<bool> cancelled_ = false;
  Duty own_duty_{cancelled_};
  Duty* duty_;
  VocabHead left_head_;                  // between leave_device() and enter_device()
  std::unique_ptr<OnDevice> on_device_;  // none: the device was left
  std::vector<uint32_t> input_;          // what an encoder-decoder's source must have read before the next token
  std::shared_ptr<const std::vector<float>> sound_;  // the same for a model that hears
  SamplingSetup sampling_;
  std::unique_ptr<TokenRules> matcher_;
  std::unique_ptr<Drafter> drafter_;
  const Adapter* adapter_ = nullptr;
  OnPrompt on_prompt_;
  std::unique_ptr<const ModelFile> tuned_lens_;  // nullptr: none
  std::vector<uint32_t> ids_;                    // the context
  std::vector<float> soft_;                      // rows of its soft tokens, as SoftContext has them
  std::vector<PlacedPicture> pictures_;          // with a grid
  size_t prompt_end_ = 0;                        // ids from here on were generated
  Logprobs logprobs_;                            // of the last token
  std::unique_ptr<const PassCosts> measured_;    // by measure_costs(); nullptr: not yet
  SessionStats stats_;
};

}  // namespace weft
