// The vocabulary of a Whisper whose file has the tokens of text alone, as bytes, in the order of their ids. Not for
// other modules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_value.h"

namespace weft {

class WhisperVocabulary {
 public:
  // languages: how many of OpenAI's list the model knows, in its order; at most kLanguages.
  static constexpr uint32_t kLanguages = 100;
  WhisperVocabulary(std::vector<std::string> tokens, uint32_t languages);
  WhisperVocabulary(const WhisperVocabulary&) = delete;
  WhisperVocabulary& operator=(const WhisperVocabulary&) = delete;

  // Returns the contents of tokenizer.json: byte-level BPE, whose merges are all that make a token of two, in the order
  // of the tokens that they make; and the control tokens, from the id after the last token of text on.
  JsonValue tokenizer() const;
  // Ids that OpenAI's program never lets a model write: signs that tell of music and speakers, or are no speech.
  std::vector<uint32_t> suppressed() const;
  // The ids of a text that is one word for a tokenizer.
  std::vector<uint32_t> encode(std::string_view text) const;

 private:
  std::vector<std::string> tokens_;
  uint32_t languages_;
  std::unordered_map<std::string_view, uint32_t> ids_;  // of the tokens that are not empty, by their bytes in tokens_
};

}  // namespace weft
