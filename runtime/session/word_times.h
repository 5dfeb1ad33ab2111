// Times of words, from the decoder's attention to what it hears: the path of dynamic time warping through the weights,
// as OpenAI's program has it (whisper/timing.py), and with its corrections of words that would be too long.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weft {

struct SpeechWord {
  double begin = 0, end = 0;  // seconds
  std::string text;           // UTF-8, with the space before it and the punctuation after it
};

struct WordTokens {
  std::string text;
  size_t count;  // tokens
};
// Splits text where tokens begin with a space or are punctuation; by_characters: wherever a token ends a character.
std::vector<WordTokens> split_words(const Tokenizer& tokenizer, std::span<const uint32_t> ids, bool by_characters);
// True for languages that have no spaces between words.
bool writes_without_spaces(const std::string& language);

// The mean of heads' weights, each normalised over the tokens and smoothed over the positions.
class WordAlignment {
 public:
  WordAlignment(size_t tokens, size_t positions) : tokens_(tokens), positions_(positions), sum_(tokens * positions) {}
  void add(std::span<float> weights);  // (tokens, positions) of a head; are changed
  // The position at which the path reaches each of the tokens first, first + 1, ..., end - 1.
  std::vector<size_t> path(size_t first, size_t end) const;

 private:
  size_t tokens_, positions_;
  std::vector<float> sum_;
};

// Words of a window, in order.
class WindowWords {
 public:
  // words: of the window's text. times: where each token begins, and the last one ends; seconds.
  WindowWords(const std::vector<WordTokens>& words, std::span<const double> times);
  // The next words, those of a segment's `tokens` tokens of text from `begin` to `end`. last_end: of the recording's
  // words so far; becomes that of these.
  std::vector<SpeechWord> take(size_t tokens, double begin, double end, double& last_end);

 private:
  struct Word : SpeechWord {
    size_t tokens;
  };
  void cut_long_words();
  void join_punctuation();

  std::vector<Word> words_;
  size_t next_ = 0;
  double usual_ = 0;  // seconds of a word: the median, at most 0.7
};

}  // namespace weft
