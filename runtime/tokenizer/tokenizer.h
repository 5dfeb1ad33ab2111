// Text to token ids and back, for the tokenizers language models ship: SentencePiece-style BPE with byte fallback
// (Llama 2, Gemma), byte-level BPE (GPT-2, Llama 3, Qwen 2, SmolLM), unigram models (T5) and WordPiece (BERT).
//
// A text may hold any bytes. Bytes that are not UTF-8 are encoded one by one and come back from bytes() unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "base/text_piece.h"

namespace weft {

struct TokenizerParts;

// Constant after construction: any number of threads may use one. Copies share their contents.
class Tokenizer {
 public:
  // From the key-values of a GGUF file as one flat JSON object ("tokenizer.ggml.model", "tokenizer.ggml.tokens", ...);
  // arrays are JSON arrays. place: the file's name, for errors. Throws Error(bad_file) for metadata that contradict
  // themselves and Error(unsupported) naming a tokenizer model or pre-tokenizer Weft does not know.
  static Tokenizer from_gguf(const JsonValue& metadata, const std::string& place);

  // From tokenizer.json, tokenizer_config.json and generation_config.json of a Hugging Face folder; the last two may be
  // null. Throws as from_gguf does.
  static Tokenizer from_hf(const JsonValue& tokenizer, const JsonValue& config, const JsonValue& generation_config,
                           const std::string& place);

  // One more than the highest id. A model's table may have more rows than this.
  uint32_t size() const;

  // Tokens a model's maker added without making them control tokens ("<tool_call>") are found with plain as well.
  using Special = weft::Special;
  using Piece = TextPiece;

  // The ids of a text of less than 2^30 bytes, in time O(n log n); adds no BOS or EOS. Throws Error(invalid_argument)
  // for a longer one, and Error(bad_file) when the tokenizer's own patterns run away.
  std::vector<uint32_t> encode(std::string_view text, Special special) const;

  // The ids of the pieces' texts joined, as one text; only control tokens that lie in parsed bytes alone are parsed.
  std::vector<uint32_t> encode(std::span<const Piece> pieces) const;

  // True if a text begins with bos(). A chat template usually writes it itself.
  bool add_bos() const;
  std::optional<uint32_t> bos() const;
  std::optional<uint32_t> eos() const;
  // The token after the text of an encoder: BERT's "[SEP]"; nothing if the tokenizer adds none.
  std::optional<uint32_t> input_end() const;
  // The token in place of one to be predicted: BERT's "[MASK]".
  std::optional<uint32_t> mask() const;
  // Every id that ends generation, ascending: end of text, end of turn, end of message.
  const std::vector<uint32_t>& stop_ids() const;

  // The bytes a token stands for; empty for control tokens and for ids from size() on. May be part of a UTF-8
  // character.
  std::string bytes(uint32_t id) const;
  // bytes() of every token, by id; empty for control and unknown tokens.
  std::vector<std::string> token_bytes() const;
  // Control and unknown tokens, and ids that no token has.
  bool is_control(uint32_t id) const;
  // As the file spells it; empty for ids that no token has.
  const std::string& spelling(uint32_t id) const;
  // The tokens that can write any text byte by byte: byte fallback's "<0x0A>", byte-level BPE's tokens of one byte.
  bool is_byte_token(uint32_t id) const;

  // Tells vocabularies apart: FNV-1a (64 bits) over every id in order, its spelling, and whether it is text, a control
  // token or a byte token. Nothing else counts: not merges, scores, normalizer or chat template. The same on every
  // machine, and for a GGUF file and a Hugging Face folder of one tokenizer, unless one of them marks other tokens as
  // control or pads the vocabulary with tokens of its own ("[PAD151646]").
  uint64_t fingerprint() const;

  // The whole text: without the space SentencePiece puts before it, and with U+FFFD for what is not UTF-8.
  std::string decode(std::span<const uint32_t> ids) const;

  // Jinja source, empty if the model has none.
  const std::string& chat_template() const;
  // Jinja source for conversations with tools; empty if chat_template() is for them, too.
  const std::string& tool_template() const;
  // Spellings by the names chat templates use: "bos_token", "eos_token", "unk_token", "pad_token", those the file
  // states.
  const std::map<std::string, std::string>& named_tokens() const;

 private:
  struct Impl;
  explicit Tokenizer(TokenizerParts parts);
  std::vector<uint32_t> encode_masked(std::string_view text, std::string_view plain) const;
  void encode_fragment(std::string_view text, std::string_view plain, bool first, std::vector<uint32_t>& ids) const;
  void encode_normalized(std::string text, size_t origin, std::vector<uint32_t>& ids) const;

  std::shared_ptr<const Impl> impl_;
};

// Turns tokens into text as they arrive; never returns half a UTF-8 character. It continues a text: unlike
// Tokenizer::decode it drops no leading space. One thread at a time; keeps the tokenizer's contents alive.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer);

  // The text that this token completes; may be empty. Bytes that can never become UTF-8 give U+FFFD at once.
  std::string push(uint32_t id);
  // Ends the text: returns U+FFFD if a character is incomplete, and resets the decoder.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string pending_;  // at most three bytes between calls: the beginning of a character
};

// Finds the strings that end generation, even where tokens cut them. It passes a text on piece by piece and holds back
// the end that could be the beginning of a stop string. One thread at a time.
class StopStrings {
 public:
  static constexpr size_t kMost = 16, kLongest = 256;  // stop strings; bytes of each

  StopStrings() = default;
  // Throws Error(invalid_argument) for one that is empty, too long or not UTF-8, and for too many.
  explicit StopStrings(std::vector<std::string> stops);

  // Returns the text that no stop string can begin in: of what was held back, then of this piece. If a stop string is
  // complete, returns the text before the first one to end, drops the rest, and stopped() is true.
  std::string push(std::string_view piece);
  // Returns what is held back: no stop string goes on over a control token.
  std::string release();
  bool stopped() const { return stopped_; }
  size_t which() const { return which_; }  // of the stop strings, if stopped()
  // Ends the text: returns what is held back and resets the object.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
  size_t which_ = 0;
};

}  // namespace weft
