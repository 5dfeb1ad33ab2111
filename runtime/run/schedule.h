// The recorded command buffers of a session, and their submission. Commands are recorded once and replayed for every
// token: what changes from token to token is read from the state on the device. A pass is one command buffer if nothing
// may come between its layers, else one for each layer.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "run/record_pass.h"
#include "run/shard_passes.h"
#include "run/turns.h"

namespace weft {

// Numbers of tokens of passes that check a draft.
inline constexpr uint32_t kDraftPasses[] = {2, 4, 8};
inline constexpr uint32_t kMostDrafted = 7;

class Schedule {
 public:
  Schedule(const Pass& pass, Policy policy, Duty& duty);  // pass: of any number of tokens
  ~Schedule();

  uint32_t chunk_tokens() const { return chunk_tokens_; }
  uint64_t picture_bytes() const { return picture_ ? picture_->activations.bytes() : 0; }  // of scratch

  // Has later passes take the rows of soft tokens from here; none: without a buffer. Nothing may be in flight.
  // deepstack: as Pass has it.
  // Both this and set_adapter() free the recordings that are replaced.
  void set_soft_rows(const View& rows, std::vector<View> deepstack = {});
  // Records the layers again, with this adapter's products. Nothing may be in flight.
  void set_adapter(const AdapterUse& adapter);
  // Submits one pass of up to `tokens` tokens (1 or chunk_tokens()) after those in flight, as the policy says. timed:
  // with timestamps, which read_times() gives once it has finished; one timed pass may be in flight at a time.
  void submit(uint32_t tokens, const Tail& tail, bool timed = false);
  // Submits one pass of up to `tokens` tokens (kDraftPasses), whose last ones are a draft: state.drafted says how many,
  // and state.tree whether it is a tree, which needs Config::checks_trees().
  // Afterwards state.end says how many tokens it has appended: those of the draft that the model chose too, and one.
  // timed: as of submit().
  void submit_check(uint32_t tokens, const Tail& tail, bool timed = false);
  // Submits one pass of exactly `tokens` tokens that are a picture, at most most_pass_tokens(). Nothing may be in
  // flight.
  void submit_picture(uint32_t tokens);
  // Has the kernels of all passes that check drafts compiled, and records their layers, so that no answer waits for it.
  // kind: of the tails that they will most likely have.
  void prepare_checks(Tail::Kind kind);
  // For submit_check with a masked tail: the masks of the pass's tokens, one after the other, mapped. They must be
  // written before, while nothing is in flight.
  std::span<uint32_t> draft_masks();
  // The state (stride_of(width)) that the last token was chosen from, after the final norm: of the last pass, which has
  // finished and was no part of a prompt. It stays until the next pass.
  View last_state() const;
  // Before the step begins at another place of a context: last_state() is no longer that of a draft's check.
  void forget_check() { checked_from_.reset(); }
  // Submits other commands that belong to the session, after the passes in flight; they count as one.
  void submit_commands(const CommandBuffer& commands) { queue_.submit(0, {}, commands); }
  // As submit with a chunk, but leaves negative log-likelihoods in nll().
  void submit_score(const PartialHeadBuffers* masked);
  const Buffer& nll() const { return nll_; }  // (context) floats, mapped; written by submit_score

  const SubmissionQueue& queue() const { return queue_; }
  uint32_t in_flight() const { return queue_.count(); }  // passes
  void wait_oldest() { queue_.wait_oldest(); }
  void wait_all() { queue_.drain(); }

  // Device time by operation of the last timed pass. It must have finished.
  std::vector<Timestamps::Stage> read_times() const;
  double read_gaps() const;  // seconds of it between command buffers

 private:
  struct End {                      // what follows a pass's layers
    CommandBuffer state, own_rows;  // first, if other devices have rows of the vocabulary table
    CommandBuffer tail;
  };
  struct Timed {  // a whole pass with timestamps
    std::unique_ptr<Timestamps> timestamps;
    std::vector<CommandBuffer> body;
    End end;
  };
  using Key = std::pair<uint32_t, Tail>;  // tokens of the pass, and what follows its layers
  struct CheckedShape {
    uint32_t tokens;  // of the pass
    bool tree;
    auto operator<=>(const CheckedShape&) const = default;
  };
  using CheckKey = std::pair<CheckedShape, Tail>;
  struct Replaceable {  // recordings with a pool of their own, which ends with them
    explicit Replaceable(const Model& model) : pool(model.device) {}
    CommandPool pool;
  };
  struct Recordings : Replaceable {
    using Replaceable::Replaceable;
    std::vector<CommandBuffer> decode, chunk;  // the layers
    std::map<Key, End> tails;
    CommandBuffer score, masked_score;
  };
  struct WholePasses : Replaceable {  // in a command buffer each: a GPU does not stop between its layers
    using Replaceable::Replaceable;
    std::map<Key, Turns<CommandBuffer>> by_key;
  };
  struct TimedPasses : Replaceable {
    using Replaceable::Replaceable;
    std::map<Key, Timed> by_key;
  };
  struct CheckPasses : Replaceable {
    using Replaceable::Replaceable;
    std::map<CheckedShape, std::vector<CommandBuffer>> bodies;
    std::map<CheckKey, CommandBuffer> ends;
    std::map<CheckKey, Timed> timed;
  };
  struct PicturePass : Replaceable {
    using Replaceable::Replaceable;
    RecordedPass pass;
  };
  struct Checks {  // passes that check drafts
    explicit Checks(const Pass& session);
    ActivationBuffers activations;  // a row of logits for each token
    Buffer masks;                   // (kMostDrafted + 1, words of a mask)
    std::vector<Activations> rows;
    std::vector<Pass> by_token;
    std::unique_ptr<CheckPasses> passes;
  };
  struct Picture {  // passes of pictures of up to so many tokens
    Picture(const Pass& session, uint32_t most);
    uint32_t tokens;
    ActivationBuffers activations;
    std::unique_ptr<PicturePass> recorded;  // nullptr: to be recorded
  };
  Pass pass_of(uint32_t tokens) const;
  void ask_for_layers(Recorder& dry_run, const Pass& pass) const;
  std::unique_ptr<Recordings> record_layers(const Pass& pass) const;
  void forget_passes();
  Checks& checks();
  CheckPasses& check_passes();
  Pass check_pass(const CheckedShape& shape);
  std::unique_ptr<Timestamps> timestamps_for(uint32_t tokens) const;
  const Timed& timed(const Key& key);
  const Timed& timed_check(const CheckKey& key);
  const CommandBuffer& whole_pass(const Key& key);
  CommandBuffer record_whole_pass(const Key& key);
  End record_tail_of(CommandPool& pool, const Key& key, Timestamps* timestamps) const;
  const std::vector<CommandBuffer>& checked_body(const CheckedShape& shape);
  CommandBuffer record_check_of(const CheckKey& key, Timestamps* timestamps);
  void submit_with_shards(const Key& key, std::span<const CommandBuffer> body, const End& end, size_t pieces);

  Pass pass_;
  uint32_t chunk_tokens_;
  std::unique_ptr<ShardPasses> shards_;  // nullptr: the model's device has all rows
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<CommandPool> embed_pool_;  // of the layers' first recordings; nullptr: recordings_->pool
  std::unique_ptr<WholePasses> whole_;       // made by the first submit() of one
  std::unique_ptr<TimedPasses> timed_;       // likewise
  const Timed* last_timed_ = nullptr;
  std::unique_ptr<Checks> checks_;      // made by the first submit_check
  std::optional<size_t> checked_from_;  // the last pass has checked a draft: the end of the context before it
  std::unique_ptr<Picture> picture_;    // made by the first submit_picture
  Buffer block_logits_, nll_;           // made by the first submit_score
  SubmissionQueue queue_;
};

}  // namespace weft
