// Passes that compute the next tokens of several sessions over the same model. Products and projections read the
// weights once for all of them. Each session has its own position, cache and sampling.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "run/schedule.h"
#include "run/turns.h"

namespace weft {

inline constexpr uint32_t kMostBatchSlots = 64;

class Batch {
 public:
  // A session's part: its buffers, which outlive the batch, and what follows its layers.
  struct Member {
    const StepBuffers& step;
    const ContextState& context;
    Tail tail;
    AdapterUse adapter = {};
    bool own_positions = false;  // its rope tables are not those of the others
  };
  // Records the pass of one token a session, of 1 to kMostBatchSlots sessions of a decoder. duties: as of a
  // SubmissionQueue.
  Batch(const Model& model, std::span<const Member> members, Policy policy, std::vector<Duty*> duties);
  ~Batch();

  // Submits one pass after those in flight, as the policy says.
  void submit();
  // The most tokens of a session in a pass that checks drafts: the largest of kDraftPasses that keeps the pass within
  // kMostBatchSlots rows; 1 if all are too large.
  uint32_t most_tokens() const;
  // Makes and keeps the activations and recordings of passes that check `tokens` tokens of each session, one of
  // kDraftPasses. False if the device or the host has no memory for them.
  bool prepare_check(uint32_t tokens);
  // Submits one such pass; nothing may be in flight. The last state.drafted tokens of a session are its draft: 0 to
  // `tokens` - 1. Results after a session's own tokens are ignored.
  // Afterwards the session's state.end says how many tokens were appended.
  void submit_check(uint32_t tokens);
  uint32_t run_ahead() const { return queue_.run_ahead(); }
  uint32_t in_flight() const { return queue_.count(); }
  void wait_oldest() { queue_.wait_oldest(); }

 private:
  std::vector<Neighbours> find_neighbours() const;
  RecordedPass record(const ActivationBuffers& activations, uint32_t tokens);
  void set_rows(uint32_t rows);

  const Model& model_;
  std::vector<Member> members_;
  ActivationBuffers activations_;
  std::unique_ptr<ActivationBuffers> check_activations_;  // made by the first prepare_check
  StepBuffers step_;
  Buffer member_lists_;  // of abi::BatchMember: of each neighbours_
  std::vector<Neighbours> neighbours_;
  CommandPool pool_;
  Turns<RecordedPass> decode_;
  std::map<uint32_t, RecordedPass> checks_;  // by the tokens of a session
  SubmissionQueue queue_;
};

}  // namespace weft
