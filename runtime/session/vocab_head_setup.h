// Chooses the rows of the vocabulary table that the next tokens of a session may come from, and how they are projected:
// the settings of the user and the grammar, and the form in which the device reads them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "grammar/matcher.h"
#include "model/forward.h"
#include "vocab/heads/trials.h"
#include "vocab/heads/vocab_head.h"

namespace weft {

class VocabHeadSetup {
 public:
  VocabHeadSetup(const Model& model, const StepBuffers& step) : model_(model), step_(step) {}

  // A checked head, its modes to try and their trials: set() cannot fail with it.
  struct Prepared {
    VocabHead head;
    std::vector<VocabHead::Mode> tried;
    std::optional<HeadTrials> trials;
  };
  // Changes no setting. Throws Error(invalid_argument) for an id outside the vocabulary, Error(unsupported) for a
  // partial head of a model that only the full head can serve.
  Prepared prepare(VocabHead head);
  void set(Prepared prepared) noexcept;
  void set(VocabHead head) { set(prepare(std::move(head))); }
  const VocabHead& head() const { return head_; }
  // Makes the buffers that a session with a grammar needs. Throws as set().
  void prepare_grammar();
  uint64_t bytes() const { return (buffers_ ? buffers_->bytes() : 0) + mask_.bytes(); }

  // begin() and allow() write to the device: nothing may be in flight.
  // Prepares the head for tokens after the context `ids` and sets the tail's part of it.
  void begin(Tail& tail, std::span<const uint32_t> ids);
  // Trials of the heads if the fastest is to be chosen; nullptr for other settings. Until use_tried() the tail reads
  // every row.
  HeadTrials* trials() { return trials_ ? &*trials_ : nullptr; }
  // The same tail with the trials' head. Nothing may be in flight.
  Tail use_tried(Tail tail);
  // The same tail, for a next token that is one of those allowed. Throws Error(invalid_argument) if none of them is
  // kept.
  Tail allow(Tail tail, const TokenSet& allowed, size_t position);
  // The same tail, for tokens of which each has a mask of its own: it must be a head without a keep-list.
  Tail allow_draft(Tail tail);
  // True if a mask needs every row: masks of partial heads are of one device's rows, of a model without a head of its
  // own, and of a table in a basis.
  bool masks_all_rows() const;
  // After begin(): the buffers, with the keep-list as a mask; nullptr: every token is kept.
  const PartialHeadBuffers* mask_kept();

  // Rows that the projection read for a token.
  RowsRead counts(const abi::RingEntry& entry) const;
  bool partial() const { return partial_; }  // true if the projection does not read the whole table

 private:
  bool only_full() const;
  bool has_basis() const;
  void need_buffers();
  Tail mask_all_rows(Tail tail, const TokenSet& allowed);
  void write_kept();
  void set_mode(Tail& tail, VocabHead::Mode mode);
  void write_spreads(VocabHead::Mode mode);
  void write_mask(std::span<const uint32_t> bits);
  void set_positions(uint64_t positions);

  const Model& model_;
  const StepBuffers& step_;
  VocabHead head_;
  std::vector<VocabHead::Mode> tried_;  // by the trials' number
  std::optional<HeadTrials> trials_;
  std::unique_ptr<PartialHeadBuffers> buffers_;  // made when first needed
  Buffer mask_;                                  // Tail::mask
  std::vector<uint32_t> kept_ids_, kept_;        // the keep-list's ids, and bits for them; empty: no keep-list
  uint64_t positions_ = 0;                       // rows that can be sampled at present
  bool partial_ = false;
};

}  // namespace weft
