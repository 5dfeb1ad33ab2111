// Byte-pair encoding of one piece of text (Sennrich et al. 2016, arXiv:1508.07909), over bytes or over characters, with
// merges ranked by a list (tokenizer.json, GGUF "gpt2") or by the score of their result (SentencePiece, GGUF "llama").
// O(n log n) in the length of the piece.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

struct BpeOptions {
  bool byte_level = false;     // start from single bytes, else from characters
  bool ignore_merges = false;  // a piece that is a token as it stands is that token, whatever the merges say
  bool byte_fallback = false;  // a character that is no token is written as tokens of its bytes
  bool fuse_unknown = false;   // neighbouring unknown characters give one unknown token
  std::optional<uint32_t> unknown;
};

// Constant after construction; any number of threads, each with a Scratch of its own.
class Bpe {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Merge {
    uint32_t left, right, result;  // ids
  };
  class Scratch;

  // texts: what each id stands for in the text to encode, empty for an id that text never gives (control tokens); it
  // must outlive the object. byte_ids: the fallback tokens, kNone for a byte without one. merges: the first is tried
  // first.
  Bpe(const BpeOptions& options, const std::vector<std::string>& texts, const std::array<uint32_t, 256>& byte_ids,
      const std::vector<Merge>& merges);
  // The same with ranks by scores, one for each id, the highest first. No score may be NaN.
  Bpe(const BpeOptions& options, const std::vector<std::string>& texts, const std::array<uint32_t, 256>& byte_ids,
      std::vector<float> scores);

  // Appends the ids of a piece, which must be shorter than 2^31 bytes.
  void encode(std::string_view piece, Scratch& scratch, std::vector<uint32_t>& ids) const;

 private:
  struct Symbol {
    uint32_t begin, length;  // bytes of the piece; a length of 0: merged into its left neighbour
    uint32_t previous, next;
    uint32_t id;
  };
  struct Candidate {
    double rank;  // the lowest merges first, the leftmost of equals
    uint32_t left, right, length, result;
  };
  struct Ranked {
    double rank;
    uint32_t result;
  };

  uint32_t find(std::string_view text) const;
  std::optional<Ranked> merged(std::string_view piece, const Symbol& left, const Symbol& right) const;
  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge(std::string_view piece, Scratch& scratch) const;
  void emit(std::string_view piece, const std::vector<Symbol>& symbols, std::vector<uint32_t>& ids) const;
  void index(const std::vector<std::string>& texts);

  BpeOptions options_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::array<uint32_t, 256> byte_ids_;
  std::unordered_map<uint64_t, Ranked> merges_;  // (left id << 32 | right id)
  std::vector<float> scores_;                    // empty: ranked by merges_
};

// Working memory of encode(), to be kept from piece to piece.
class Bpe::Scratch {
  friend class Bpe;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace weft
