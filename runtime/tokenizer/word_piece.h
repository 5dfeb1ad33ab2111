// WordPiece (Schuster and Nakajima 2012; Wu et al. 2016, arXiv:1609.08144) as BERT encodes with it: the longest token
// that begins a word, then the longest that continues from there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

struct WordPieceOptions {
  std::string continuation = "##";  // stands before tokens that go on with a word
  size_t most_characters = 100;     // of a word; longer ones are unknown
  uint32_t unknown = 0;             // of a word no tokens make up
};

// Constant after construction; any number of threads.
class WordPiece {
 public:
  // texts: what each id stands for in a word, empty for an id that text never gives; it must outlive the object.
  WordPiece(WordPieceOptions options, const std::vector<std::string>& texts);

  // Appends the ids of a word, in time O(length^2) of at most most_characters.
  void encode(std::string_view word, std::vector<uint32_t>& ids) const;

 private:
  WordPieceOptions options_;
  std::unordered_map<std::string_view, uint32_t> ids_;
};

}  // namespace weft
