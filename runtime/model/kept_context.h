// How much of a session's context is computed and kept, in whatever states its layers have; and what happens if the
// session goes back.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/context_state.h"

namespace weft {

// Recurrent states cannot go back, so there are checkpoints of them: copies at message boundaries and at the end of
// each prompt. A context that goes back further than its states can keeps the nearest checkpoint before that token, and
// the rest of the prompt is read again. If all states can go back anywhere, there are none.
class KeptContext {
 public:
  KeptContext(const Model& model, uint32_t context, const ops::CacheFormat& format, const StatePlace& place);

  const ContextState& state() const { return state_; }
  uint64_t bytes() const { return state_.bytes() + checkpoint_memory_.bytes(); }

  // Numbers of the context's first positions. Rings have lost positions that are far before the written ones.
  struct Extent {
    size_t tokens = 0;             // that are computed
    size_t written = 0;            // highest position ever written, plus 1
    size_t recurrent_written = 0;  // the same for recurrent states, which may be copies of checkpoints
    size_t recurrent_first = 0;    // fewest tokens that recurrent states which are copies can go back to
  };
  // The extent that can be saved: without tokens if the recurrent states have just gone back and cannot be copied yet.
  Extent extent_to_save() const;
  size_t tokens() const { return extent_.tokens; }

  // Before passes are submitted: they write the positions before `end`.
  void will_write(size_t end);
  // Sets the number of computed tokens; their passes may be in flight.
  void set_tokens(size_t tokens) { extent_.tokens = tokens; }
  void forget();  // nothing is computed
  // Keeps at most `most` tokens: fewer if a state cannot go back there. Nothing may be in flight.
  void truncate(size_t most);

  // Copies the recurrent states after the passes in flight, which are then the states after `tokens` tokens. Does
  // nothing without recurrent states.
  void add_checkpoint(size_t tokens);
  // Returns how many tokens of `ids` are computed when the next checkpoint is due: more than tokens(), after the text's
  // first message or one of the last two; or all of them. ends: ids that end a message.
  size_t next_checkpoint(std::span<const uint32_t> ids, std::span<const uint32_t> ends) const;

  // Makes this a copy of at most `most` tokens of the other, if that is more than tokens(). The other may have passes
  // in flight.
  void copy_prefix(const KeptContext& from, size_t most);

  // The bytes of the states of a context, to save and to load them: the same list for the same extent. After loading,
  // it may have one token less.
  std::vector<View> parts(const Extent& extent) const;
  void loaded(const Extent& extent);

 private:
  struct Checkpoint {
    size_t tokens, written;
    size_t first;   // fewest tokens that it can go on from
    size_t source;  // tokens of the state that it is a copy of
    uint32_t slot;
  };
  struct Source {  // of the recurrent states of `tokens` tokens
    size_t tokens;
    const Checkpoint* checkpoint;  // nullptr: the states themselves
  };
  bool can_truncate(size_t tokens, bool recurrent, size_t written) const;
  CopiedRange copied(size_t tokens) const;  // by all layers
  // False for states that are a copy and have gone back as far as that can: a copy of them could go nowhere.
  bool can_copy(size_t tokens) const { return tokens > extent_.recurrent_first; }
  std::optional<Source> find(size_t most, bool to_copy) const;
  // The bytes that a copy of the recurrent states of so many tokens consists of.
  std::vector<View> recurrent_parts(size_t tokens) const;
  std::vector<View> views_of(const Checkpoint& checkpoint) const;  // the copies

  const Model& model_;
  ContextState state_;
  bool recurrent_;
  Buffer checkpoint_memory_;             // kMostCheckpoints slots; without bytes if there are no recurrent states
  std::vector<Checkpoint> checkpoints_;  // by ascending tokens
  Extent extent_;
};

}  // namespace weft
