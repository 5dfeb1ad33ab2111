// Sessions of one model that generate together, and join and leave between tokens.
#pragma once

#include <chrono>
#include <exception>
#include <list>
#include <optional>
#include <vector>

#include "session/batch.h"

namespace weft {

class ContinuousBatch {
 public:
  explicit ContinuousBatch(const Model& model) : model_(model) {}
  ContinuousBatch(const ContinuousBatch&) = delete;
  ContinuousBatch& operator=(const ContinuousBatch&) = delete;

  // From the next step on the session is a part of the batch, until step() says that it has ended; it must not go
  // before that, nor before the batch. Throws Error(invalid_argument) for a session without a prompt, of another model,
  // one that is there already, or if the batch is full; Error(unsupported) for one of an encoder-decoder.
  void add(const BatchEntry& entry);
  // Call it on an empty batch when the device was lost: frees what the batch has there, and forgets how long passes
  // took, for the next one may be another.
  void leave_device() { shared_.reset(), costs_.clear(); }
  // The part of the time that tokens get while prompts wait, at least: 0 (a pass of each takes turns) to kMostShare.
  // Throws Error(invalid_argument).
  static constexpr double kMostShare = 0.95;
  void set_token_share(double share);
  size_t size() const { return entries_.size(); }

  struct Ended {
    Session* session;
    std::optional<Stop> stop;    // none: it failed
    std::exception_ptr failure;  // why
  };
  // Computes passes of the prompts that are not complete, as long as they have no more tokens together than one pass
  // may have, unless tokens have had less time than their share. The prompt comes first of which the least is left;
  // after one has overtaken the oldest, that is next: short ones hardly wait, and the oldest gets half of the prompts'
  // passes, however many come. Then computes a token of each session whose prompt is complete; a session with a grammar
  // has passes of its own. A session gets several tokens at once if guesses are right, and when a session joins or
  // leaves, because passes run ahead; not while prompts wait. A failure of one session ends that session only; if a
  // shared pass fails, step() throws, and the batch is empty.
  std::vector<Ended> step();

 private:
  struct Member {
    explicit Member(const BatchEntry& added)
        : entry(added), generation(entry.session, entry.max_tokens, entry.ignore_stop_tokens, entry.on_token) {}
    BatchEntry entry;
    Session::Generation generation;
    bool prompted = false;  // nothing is left of its prompt
    std::exception_ptr failure;
    bool ended() const { return failure || generation.stopped(); }
    bool writes() const { return prompted && !ended(); }
  };
  std::vector<Session::Generation*> sharing();
  bool is_alone(const Member& member) const;
  bool waiting() const;
  bool prompts_are_next();
  std::vector<Member*> prompts();
  Member* next_prompt();
  void end_cancelled_prompts();
  void receive(Session::Generation& generation, double sharing);
  void catch_up();
  void compute_shared();
  void compute_alone();
  void compute_prompts();

  const Model& model_;
  double token_share_ = 0;
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kMostOwed{1};
  Seconds owed_{};               // time that tokens get before the next prompt
  bool oldest_is_next_ = false;  // of the prompts; else that of which the least is left
  std::list<Member> entries_;    // in order of arrival; their addresses stay
  BatchCosts costs_;
  std::optional<SharedPasses> shared_;  // after the entries: its passes end before they go
};

}  // namespace weft
