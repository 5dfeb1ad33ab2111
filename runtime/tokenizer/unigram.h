// The most probable segmentation of a piece of text by a unigram language model (Kudo 2018, "Subword Regularization",
// arXiv:1804.10959), found as Viterbi's shortest path: SentencePiece's second model, which T5 and XLM-R use.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"

namespace weft {

struct UnigramOptions {
  uint32_t unknown = 0;        // stands for a run of characters that no token has
  bool byte_fallback = false;  // such a run is written as tokens of its bytes instead
};

// Constant after construction; any number of threads.
class Unigram {
 public:
  static constexpr size_t kLongest = 1024;  // bytes of a token; a longer one is never found in a text

  // texts: the text of each id, empty for an id that text never gives. scores: the tokens' log-probabilities, one for
  // each text, never NaN. byte_ids: the fallback tokens, UINT32_MAX for a byte without one.
  Unigram(const UnigramOptions& options, const std::vector<std::string>& texts, const std::vector<double>& scores,
          const std::array<uint32_t, 256>& byte_ids);

  // Appends the ids of a piece, which must be shorter than 2^31 bytes.
  void encode(std::string_view piece, std::vector<uint32_t>& ids) const;

 private:
  void emit_unknown(std::string_view text, std::vector<uint32_t>& ids) const;

  UnigramOptions options_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::array<uint32_t, 256> byte_ids_;
  ByteTrie trie_;  // ids
};

}  // namespace weft
