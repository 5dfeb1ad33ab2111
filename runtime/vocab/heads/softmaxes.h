// Heads that make probabilities of several softmaxes over the vocabulary table (docs/softmaxes.md): what both kinds
// share. They give logarithms of probabilities.
#pragma once

#include <array>

#include "vocab/heads/output_head.h"

namespace weft {

class SoftmaxHead : public OutputHead {
 public:
  // Throws Error(unsupported) for a model that it cannot be part of.
  SoftmaxHead(const JsonObject& values, const HeadModel& model, uint32_t count);

  uint32_t count() const { return count_; }  // of softmaxes
  // Rows of softmax k, in a vocabulary of `vocab` rows.
  virtual uint32_t first_row(uint32_t /*k*/) const { return 0; }
  virtual uint32_t end_row(uint32_t /*k*/, uint32_t vocab) const { return vocab; }

  std::string text() const override { return std::to_string(count_) + " softmaxes (" + kind() + ")"; }
  bool gives_log_probabilities() const override { return true; }
  // A binding must reach the logits of all softmaxes.
  void check_device(const Plan& plan, uint32_t vocab, const std::string& file) const override;
  const char* buffer_name() const override { return "softmaxes"; }
  std::vector<HeadMatrix> matrices() const override;
  HeadConstants constants(uint32_t vocab) const override;  // (count, 2): first row and end of each
  uint64_t scratch_bytes(uint32_t vocab) const override;
  std::string refusal() const override { return "the model's probabilities come from several softmaxes"; }
  std::string hint() const override { return "docs/softmaxes.md says what works with them"; }

 protected:
  // Rows of states and of priors that the file's matrices give.
  virtual uint32_t own() const { return count_; }
  virtual bool biased() const { return false; }         // the states' matrix has a bias
  virtual uint64_t cluster_bytes() const { return 0; }  // of Scratch::clusters

  // `padded` is the number of softmaxes rounded up to a power of two.
  struct Scratch {
    View states;    // (padded, width)
    View rotated;   // (padded, width) in the table's basis
    View logits;    // (padded, vocab)
    View priors;    // (1, padded)
    View sums;      // ops::log_sum_bytes(vocab, padded)
    View clusters;  // cluster_bytes()
  };
  Scratch scratch(const HeadRow& row) const;
  ops::MixViews views(const HeadRow& row, const Scratch& scratch) const;
  const Matrix& states(const HeadRow& row) const { return row.weights.matrices[0]; }
  void record_priors(const HeadRow& row, const Scratch& scratch) const;

  const uint32_t width_, count_;

 private:
  uint32_t padded() const;
  std::array<uint64_t, 6> scratch_sizes(uint32_t vocab) const;  // of Scratch's views, in order
};

}  // namespace weft
