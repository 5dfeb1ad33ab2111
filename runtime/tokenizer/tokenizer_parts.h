// Result of the readers of tokenizer files, from which Tokenizer is made. Used by the files of this folder only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace weft {

enum class TokenKind : uint8_t { missing, normal, unknown, control, user_defined, byte };

struct TokenizerParts {
  // By id. bytes: what a token stands for in the output. match: what it stands for in normalized text, empty for those
  // that merging must never give.
  std::vector<std::string> spelling, bytes, match;
  std::vector<TokenKind> kind;
  std::array<uint32_t, 256> byte_ids{};  // set by the constructor to Bpe::kNone: the byte fallback tokens

  BpeOptions bpe;
  std::vector<Bpe::Merge> merges;              // either these
  std::vector<float> scores;                   // or one score for each id
  std::optional<UnigramOptions> unigram;       // instead of merging
  std::vector<double> log_probabilities;       // then one for each id
  std::optional<WordPieceOptions> word_piece;  // instead of merging

  bool byte_alphabet = false;  // tokens are spelled in the alphabet of byte_level.h
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<AddedToken> added;

  bool add_bos = false;
  std::optional<uint32_t> bos, eos;
  std::optional<uint32_t> input_end, mask;
  std::vector<uint32_t> stop_ids;
  size_t leading_spaces = 0;                 // how many spaces decode() drops from the front of a text
  std::string chat_template, tool_template;  // tool_template: for conversations with tools; empty if there is none
  std::map<std::string, std::string> named;

  TokenizerParts() { byte_ids.fill(Bpe::kNone); }
};

// Reads the tokenizer files of a Hugging Face folder (tokenizer_hf.cpp). Arguments and errors as Tokenizer::from_hf.
TokenizerParts read_hf_tokenizer(const JsonValue& tokenizer, const JsonValue& config,
                                 const JsonValue& generation_config, const std::string& place);

// The byte b of a token spelled "<0xB>" with two hexadecimal digits.
std::optional<unsigned char> byte_token(std::string_view spelling);

// Text of a WordPiece token: a space comes before it unless the token continues a word. cleans: no space before
// punctuation and endings such as "n't" either, as in Hugging Face's decoder.
std::string word_piece_bytes(const WordPieceOptions& options, const std::string& spelling, bool cleans);

// "<|...|>": control tokens that some files do not mark as such.
bool looks_like_control(std::string_view spelling);

using TokenIds = std::unordered_map<std::string, uint32_t>;  // by spelling

// Appends the merge of two tokens; throws Error(bad_file) if they or their result are no tokens. One that would make a
// control token of ordinary text is left out.
void add_merge(TokenizerParts& parts, const TokenIds& ids, const std::string& left, const std::string& right,
               const std::string& place);
// The same for "left right". Tokens may hold spaces themselves: the first space that parts two tokens is meant.
void add_merge(TokenizerParts& parts, const TokenIds& ids, const std::string& merge, const std::string& place);

// Marks the added tokens that take the white space beside them. GGUF has no key for it: llama.cpp (llama-vocab.cpp)
// knows these models by their names. architecture: general.architecture. model: tokenizer.ggml.model.
void mark_stripping(std::string_view architecture, std::string_view model, std::vector<AddedToken>& added);

// Adds to stop_ids the tokens whose spelling is known to end a turn, and makes stop tokens and BOS control tokens;
// sorts stop_ids.
void finish_stop_ids(TokenizerParts& parts);

}  // namespace weft
