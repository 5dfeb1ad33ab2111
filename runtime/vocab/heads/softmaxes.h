// The head of a model whose probabilities come from several softmaxes over its vocabulary table.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ops.h"

namespace weft {

// How logits become probabilities: by one softmax; by a mixture of several over all rows of the table, each of a state
// of its own (Yang et al. 2018, "Breaking the Softmax Bottleneck"); or by several over some rows each, of which the
// first says how likely the others are (Grave et al. 2017, "Efficient softmax approximation for GPUs").
enum class SoftmaxKind { plain, mixture, adaptive };
struct Softmaxes {
  SoftmaxKind kind = SoftmaxKind::plain;
  uint32_t count = 1;
  std::vector<uint32_t> cutoffs;  // if adaptive: the first rows of all but the first, ascending

  // Rows of states and of priors that the file's matrices give: an adaptive first softmax reads the plain state, and
  // its prior is in the logits.
  uint32_t own() const { return kind == SoftmaxKind::adaptive ? count - 1 : count; }
  // Rows of softmax k, in a vocabulary of `vocab` rows.
  uint32_t first_row(uint32_t k) const { return kind == SoftmaxKind::adaptive && k > 0 ? cutoffs[k - 1] : 0; }
  uint32_t end_row(uint32_t k, uint32_t vocab) const {
    return kind == SoftmaxKind::adaptive && k + 1 < count ? cutoffs[k] : vocab;
  }
};

// Weights of several softmaxes over the table in addition to it; own = softmaxes.own().
struct SoftmaxWeights {
  Buffer buffer;
  Matrix states;  // (own * width, width): the softmaxes' states, from the state after the final norm
  Matrix priors;  // (own, width): the logits of their shares
  Buffer bounds;  // (softmaxes, 2): first row and end
};

// Scratch; `padded` is their number rounded up to a power of two.
struct SoftmaxScratch {
  View states;    // (padded, width)
  View rotated;   // (padded, width) in the table's basis
  View logits;    // (padded, vocab)
  View priors;    // (1, padded)
  View sums;      // ops::log_sum_bytes(vocab, padded)
  View clusters;  // abi::ClusterState of an adaptive softmax
};

// Records the logarithms of the probabilities that they make of states.
class SoftmaxHead {
 public:
  // state: abi::StepState of the pass. width, vocab: elements of a hidden state, rows of the vocabulary.
  SoftmaxHead(Recorder& recorder, const Softmaxes& softmaxes, const SoftmaxWeights& weights, const Matrix& table,
              const SoftmaxScratch& scratch, const View& state, uint32_t width, uint32_t vocab);

  // Records the logarithms for all rows. h (width): the state after the final norm. logits (vocab)
  void all(const View& h, const View& logits) const;
  // The same as far as a choice needs them: -infinity for the clusters of an adaptive softmax that cannot win
  // (shaders/choose_clusters.comp). A mixture has no clusters.
  struct Choice {
    View state;        // abi::StepState of the session
    View params;       // abi::SampleParams
    View token_flags;  // abi.h, TOKEN_FLAGS
    View scores;       // (vocab) scratch
  };
  void winning(const View& h, const View& logits, const Choice& choice) const;
  // Writes the number of rows that all() reads, if there are clusters.
  void count_all(const View& count) const;

 private:
  bool has_clusters() const { return softmaxes_.kind == SoftmaxKind::adaptive; }
  ops::MixViews views(const View& logits) const;
  void priors(const View& h) const;
  void mixture(const View& h, const ops::MixViews& views) const;
  void adaptive_states(const View& h) const;
  ops::RowRange rows_of(uint32_t k) const;
  void project(uint32_t k, const View* groups = nullptr) const;

  Recorder& r_;
  const Softmaxes& softmaxes_;
  const SoftmaxWeights& weights_;
  const Matrix& table_;
  SoftmaxScratch scratch_;
  View state_;
  uint32_t width_, vocab_;
};

}  // namespace weft
