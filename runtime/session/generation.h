// One generate() of a session, step by step.
#pragma once

#include <algorithm>
#include <chrono>

#include "run/batch.h"
#include "session/session.h"

namespace weft {

// Submits passes and reads their tokens until there is a reason to stop. generate() runs it as a whole; batch.cpp and
// continuous_batch.cpp run those of several sessions side by side, over passes of their own.
class Session::Generation {
 public:
  Generation(Session& session, uint32_t max_tokens, bool ignore_stop_tokens, const OnToken& on_token)
      : s_(session), max_tokens_(max_tokens), ignore_stop_tokens_(ignore_stop_tokens), on_token_(on_token) {}
  ~Generation();  // waits for all passes
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  Stop run();

  // Submits the prompt, with the first token to come, unless there is a reason to stop. in_batch: submits
  // nothing if only one token is left to compute, because the batch computes it.
  void start(bool in_batch);
  // The same in steps, in a batch: computes one pass of the prompt. True when nothing of it is left, which is so if
  // there is a reason to stop.
  bool compute_prompt_pass();
  size_t prompt_tokens_left() const;
  size_t prompt_pass_tokens() const;  // of the next one
  // Waits for the token that start() has submitted, if any, and reads it.
  void receive_first();
  // The parts of this session that a batch uses.
  Batch::Member member() const {
    return {s_.on_device().step, s_.on_device().kept.state(), tail_, s_.adapter_use(), !s_.pictures_.empty()};
  }
  // The batch has submitted a pass.
  void note_submitted();
  // Reads the next token. Its pass has finished. sharing: tokens that the pass has read the weights once for.
  void receive(double sharing);
  // Computes and reads the next token in a pass of this session alone, or several if guesses are checked in it.
  void compute_tokens();

  // For a batch that checks guesses of several sessions in a pass. True if this one's drafter guesses for batches.
  bool guesses_in_batches() const { return s_.drafter_ && s_.drafter_->guesses_in_batches(); }
  // Guesses for a batch, as in Drafter::offer.
  std::span<const uint32_t> offer(std::span<double> chances);
  // Before the pass: writes the draft, of any length, after the context. Nothing may be in flight.
  void begin_check(const DraftTree& draft);
  // After the pass: returns how many tokens may be received.
  uint32_t end_check();

  size_t left() const { return wanted_ - submitted_; }          // tokens to submit, at most
  const std::optional<Stop>& stopped() const { return stop_; }  // and why
  Session& session() const { return s_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNone = SIZE_MAX;
  bool begin();
  bool prompt_goes_on();
  bool drafts() const;
  bool check_draft();
  size_t most_in_flight() const;
  void tell_time(size_t in_flight, double seconds);
  size_t most_drafted() const { return std::min<size_t>(kMostDrafted, wanted_ - received_ - 1); }
  DraftTree draft();
  void begin_stretch();
  void read_logprobs();
  void collect_times();
  void count_bytes(const abi::RingEntry& entry, double sharing);
  std::optional<Stop> reason_to_stop(const abi::RingEntry& entry, bool go_on);
  void finish(Stop stop);

  Session& s_;
  const uint32_t max_tokens_;
  const bool ignore_stop_tokens_;
  const OnToken& on_token_;
  bool begun_ = false;
  Clock::time_point begin_, first_token_;
  double cpu_begin_ = 0, cpu_callbacks_ = 0;  // the thread's, at the first token; within callbacks since
  Tail tail_;
  size_t fresh_ = 0;                     // prompt tokens that were not cached
  size_t wanted_ = 0;                    // tokens at most
  size_t submitted_ = 0, received_ = 0;  // tokens
  size_t timed_ = kNone;                 // the token of a timed pass in flight
  size_t stretch_end_ = kNone;           // tokens until the head may change, where the fastest one is looked for
  struct {
    double seconds = 0;
    size_t tokens = 0;
  } ahead_;                                  // times of tokens whose passes ran ahead of each other
  size_t drafted_ = 0;                       // tokens of the draft that a pass checks
  std::optional<Clock::time_point> passed_;  // when the last token of the stretch had been computed
  std::optional<Stop> stop_;
};

}  // namespace weft
