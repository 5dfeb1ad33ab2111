// Text to token ids and back, for the tokenizers language models ship: SentencePiece-style BPE with byte fallback
// (Llama 2, Gemma), byte-level BPE (GPT-2, Llama 3, Qwen 2, SmolLM), unigram models (T5) and WordPiece (BERT).
//
// A text may hold any bytes. Those that are no UTF-8 are encoded byte by byte and come back from bytes() unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_piece.h"

namespace weft {

struct TokenizerParts;

// Constant after construction: any number of threads may use one. Copies share their contents.
class Tokenizer {
 public:
  // From the key-values of a GGUF file as one flat JSON object ("tokenizer.ggml.model", "tokenizer.ggml.tokens", ...);
  // arrays are JSON arrays. place: the file's name, for errors. Throws Error(bad_file) for metadata that contradict
  // themselves and Error(unsupported) naming a tokenizer model or pre-tokenizer Weft does not know.
  static Tokenizer from_gguf(const nlohmann::json& metadata, const std::string& place);

  // From tokenizer.json, tokenizer_config.json and generation_config.json of a Hugging Face folder; the last two may be
  // null. Throws as from_gguf does.
  static Tokenizer from_hf(const nlohmann::json& tokenizer, const nlohmann::json& config,
                           const nlohmann::json& generation_config, const std::string& place);

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

  // Whether a text is to begin with bos(); a chat template usually writes it itself.
  bool add_bos() const;
  std::optional<uint32_t> bos() const;
  std::optional<uint32_t> eos() const;
  // What stands behind the text an encoder reads: BERT's "[SEP]"; none for decoders' tokenizers that add nothing.
  std::optional<uint32_t> input_end() const;
  // What stands for a token to be predicted: BERT's "[MASK]".
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
  // Spellings by the names chat templates use: "bos_token", "eos_token", "unk_token", "pad_token", those the file
  // states.
  const std::map<std::string, std::string>& named_tokens() const;

 private:
  struct Impl;
  explicit Tokenizer(TokenizerParts parts);
  std::vector<uint32_t> encode_masked(std::string_view text, std::string_view plain) const;
  void encode_fragment(std::string_view text, bool first, std::vector<uint32_t>& ids) const;

  std::shared_ptr<const Impl> impl_;
};

// Tokens to text while they come, never half a UTF-8 character.
//
// Continues a text: unlike Tokenizer::decode it drops no leading space. One thread at a time; keeps the tokenizer's
// contents alive.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer);

  // The text this token completes, maybe empty. Bytes that can never become UTF-8 give U+FFFD at once.
  std::string push(uint32_t id);
  // What is left when the text ends: a character never completed, as U+FFFD. The decoder is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string pending_;  // at most three bytes between calls: the beginning of a character
};

// Texts that end what is generated, wherever tokens cut them.
//
// Passes a text on piece by piece, but holds back what could still become the beginning of a stop string. One thread at
// a time.
class StopStrings {
 public:
  static constexpr size_t kMost = 16, kLongest = 256;  // stop strings; bytes of each

  StopStrings() = default;
  // Throws Error(invalid_argument) for one that is empty, too long or not UTF-8, and for too many.
  explicit StopStrings(std::vector<std::string> stops);

  // What may be passed on now: the held-back text and this piece as far as they are decided. Once a stop string is
  // there, only what stands before the first one to end; the rest is dropped, and stopped() is true.
  std::string push(std::string_view piece);
  bool stopped() const { return stopped_; }
  // What is held back, because no more text follows. Everything is then as at the beginning.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace weft
