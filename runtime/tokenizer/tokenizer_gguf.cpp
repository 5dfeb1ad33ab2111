// Tokenizers from the metadata of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "Tokenizer").
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace weft {

namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr int kUnused = 5;                      // GGUF's type of a row without a token
const std::string kSpaceMark = "\xE2\x96\x81";  // U+2581

// GGUF's tokenizer.ggml.token_type.
TokenKind kind_of(const JsonObject& metadata, const JsonValue& value) {
  const uint32_t type = metadata.integer_of(value, kTypes, 1, 6);
  switch (type) {
    case 1:
    case kUnused:
      return TokenKind::normal;
    case 2:
      return TokenKind::unknown;
    case 3:
      return TokenKind::control;
    case 4:
      return TokenKind::user_defined;
    default:
      return TokenKind::byte;
  }
}

// An array with an entry for each token.
const JsonValue::Array& array_of(const JsonObject& metadata, const char* key, size_t tokens) {
  const JsonValue::Array& list = metadata.array(key);
  if (list.size() != tokens) {
    throw Error(Code::bad_file,
                std::string("'") + key + "' has " + std::to_string(list.size()) + " entries but there are " +
                    std::to_string(tokens) + " tokens",
                metadata.place());
  }
  return list;
}

void read_tokens(const JsonObject& metadata, TokenizerParts& parts) {
  const JsonValue::Array& tokens = metadata.array(kTokens);
  if (tokens.empty() || tokens.size() > kMaxTokens) {
    throw Error(
        Code::bad_file,
        "a vocabulary of " + std::to_string(tokens.size()) + " tokens is outside 1 to " + std::to_string(kMaxTokens),
        metadata.place());
  }
  for (const JsonValue& token : tokens) parts.spelling.push_back(metadata.text_of(token, kTokens));
  const size_t count = parts.spelling.size();
  parts.kind.assign(count, TokenKind::normal);
  if (metadata.has(kTypes)) {
    const JsonValue::Array& types = array_of(metadata, kTypes, count);
    for (size_t id = 0; id < count; ++id) parts.kind[id] = kind_of(metadata, types[id]);
  }
  for (size_t id = 0; id < count; ++id) {
    if (parts.kind[id] == TokenKind::user_defined && looks_like_control(parts.spelling[id])) {
      parts.kind[id] = TokenKind::control;
    }
  }
}

std::optional<uint32_t> find_id(const JsonObject& metadata, const char* key, size_t tokens) {
  const auto id = metadata.find_integer(key);
  if (id && *id >= tokens) {
    throw Error(
        Code::bad_file,
        std::string("'") + key + "' is " + std::to_string(*id) + " but there are " + std::to_string(tokens) + " tokens",
        metadata.place());
  }
  return id;
}

void read_special_ids(const JsonObject& metadata, TokenizerParts& parts) {
  const size_t tokens = parts.spelling.size();
  parts.bos = find_id(metadata, "tokenizer.ggml.bos_token_id", tokens);
  parts.eos = find_id(metadata, "tokenizer.ggml.eos_token_id", tokens);
  // Early files of Llama models lack these keys.
  const auto is_token = [&](size_t id, const char* spelling) { return id < tokens && parts.spelling[id] == spelling; };
  if (!parts.bos && is_token(1, "<s>")) parts.bos = 1;
  if (!parts.eos && is_token(2, "</s>")) parts.eos = 2;
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = find_id(metadata, key, tokens)) parts.stop_ids.push_back(*id);
  }
  const std::pair<const char*, const char*> names[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                       {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                       {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                       {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : names) {
    const auto id = metadata.find_integer(key);
    if (id && *id < tokens) parts.named[name] = parts.spelling[*id];
  }
  if (parts.bos) parts.named.emplace("bos_token", parts.spelling[*parts.bos]);
  if (parts.eos) parts.named.emplace("eos_token", parts.spelling[*parts.eos]);
  finish_stop_ids(parts);
}

// Rows of the table that have no token: they must not count as the least probable one.
void drop_unused(const JsonObject& metadata, TokenizerParts& parts) {
  const JsonValue* types = metadata.find(kTypes);
  for (size_t id = 0; types != nullptr && id < parts.kind.size(); ++id)
    if ((*types)[id] == kUnused) parts.kind[id] = TokenKind::missing;
}

void read_unigram(const JsonObject& metadata, TokenizerParts& parts, bool prefix) {
  if (!parts.bpe.unknown)
    throw Error(Code::bad_file, "a unigram model has no token for what is unknown", metadata.place());
  const auto has_byte = [](uint32_t id) { return id != Bpe::kNone; };
  parts.unigram = {*parts.bpe.unknown, std::all_of(parts.byte_ids.begin(), parts.byte_ids.end(), has_byte)};
  for (size_t id = 0; id < parts.scores.size(); ++id)
    parts.log_probabilities.push_back(parts.kind[id] == TokenKind::normal ? double{parts.scores[id]}
                                                                          : std::numeric_limits<double>::max());
  parts.scores.clear();
  std::optional<Charsmap> map;
  const char* const key = "tokenizer.ggml.precompiled_charsmap";
  if (metadata.has(key) && !metadata.array(key).empty()) {
    std::string text;
    for (const JsonValue& byte : metadata.array(key)) {
      if (!byte.is_number_integer()) metadata.refuse(key, "an array of bytes", byte);
      text += static_cast<char>(byte.get<int64_t>());
    }
    map.emplace(text, metadata.place());
  }
  const bool collapse = metadata.flag("tokenizer.ggml.remove_extra_whitespaces", false);
  parts.normalizer = Normalizer::sentencepiece(prefix, collapse, std::move(map));
}

// bytes and match of a vocabulary of characters with U+2581 for a space, and its byte tokens.
void fill_characters(const JsonObject& metadata, TokenizerParts& parts) {
  parts.bytes.resize(parts.spelling.size());
  parts.match.resize(parts.spelling.size());
  for (size_t id = 0; id < parts.spelling.size(); ++id) {
    const std::string& spelling = parts.spelling[id];
    if (parts.kind[id] == TokenKind::byte) {
      const auto byte = byte_token(spelling);
      if (!byte)
        throw Error(Code::bad_file, "the byte token " + std::to_string(id) + " is not spelled like <0x0A>",
                    metadata.place());
      parts.byte_ids[*byte] = static_cast<uint32_t>(id);
      parts.bytes[id] = static_cast<char>(*byte);
    } else if (parts.kind[id] == TokenKind::normal || parts.kind[id] == TokenKind::user_defined) {
      parts.match[id] = spelling;
      std::string& bytes = parts.bytes[id] = spelling;
      for (size_t at = 0; (at = bytes.find(kSpaceMark, at)) != std::string::npos; ++at)
        bytes.replace(at, kSpaceMark.size(), " ");
    }
  }
}

// SentencePiece BPE (characters, merged by the score of the result, with bytes for characters that are no token) or, as
// llama.cpp calls it, "t5": its unigram model.
void read_sentencepiece(const JsonObject& metadata, TokenizerParts& parts, bool unigram) {
  const size_t count = parts.spelling.size();
  const bool typed = metadata.has(kTypes);
  const auto unknown = find_id(metadata, "tokenizer.ggml.unknown_token_id", count);
  for (size_t id = 0; id < count; ++id) {
    if (!typed && byte_token(parts.spelling[id])) parts.kind[id] = TokenKind::byte;
    if (!typed && parts.spelling[id] == "<unk>") parts.kind[id] = TokenKind::unknown;
    if (parts.kind[id] == TokenKind::unknown && !parts.bpe.unknown) parts.bpe.unknown = static_cast<uint32_t>(id);
  }
  if (unknown) parts.bpe.unknown = unknown;
  if (unigram) drop_unused(metadata, parts);
  read_special_ids(metadata, parts);

  fill_characters(metadata, parts);
  for (const JsonValue& score : array_of(metadata, kScores, count)) {
    if (!score.is_number()) metadata.refuse(kScores, "an array of numbers", score);
    const double value = score.get<double>();
    if (std::isnan(value)) throw Error(Code::bad_file, "a token's score is not a number", metadata.place());
    parts.scores.push_back(static_cast<float>(std::clamp(value, -1e30, 1e30)));
  }
  const bool prefix = metadata.flag("tokenizer.ggml.add_space_prefix", true);
  parts.leading_spaces = prefix ? 1 : 0;
  parts.add_bos = metadata.flag("tokenizer.ggml.add_bos_token", !unigram);
  if (unigram) return read_unigram(metadata, parts, prefix);
  parts.bpe.byte_fallback = true;
  parts.normalizer = Normalizer::sentencepiece(prefix);
}

void read_merges(const JsonObject& metadata, TokenizerParts& parts) {
  TokenIds ids;
  for (size_t id = 0; id < parts.spelling.size(); ++id) ids.emplace(parts.spelling[id], static_cast<uint32_t>(id));
  const char* const key = "tokenizer.ggml.merges";
  for (const JsonValue& merge : metadata.array(key))
    add_merge(parts, ids, metadata.text_of(merge, key), metadata.place());
}

// "gemma4": SentencePiece's characters, merged by the rank of a list. llama.cpp begins every text with BOS, cuts it at
// newlines, and reads no further key.
void read_ranked_characters(const JsonObject& metadata, TokenizerParts& parts) {
  parts.bpe.byte_fallback = true;
  parts.bpe.unknown = find_id(metadata, "tokenizer.ggml.unknown_token_id", parts.spelling.size());
  parts.normalizer = Normalizer::sentencepiece(false);
  parts.pre_tokenizer = PreTokenizer::lines();
  read_special_ids(metadata, parts);
  fill_characters(metadata, parts);
  read_merges(metadata, parts);
  parts.add_bos = true;
}

void read_byte_level(const JsonObject& metadata, TokenizerParts& parts) {
  const std::string name = metadata.text("tokenizer.ggml.pre", "default");
  parts.pre_tokenizer = PreTokenizer::from_name(name, metadata.place());
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool llama3 =
      is_one_of({"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "midm-2.0", "pixtral"});
  // The tokenizer.json of Qwen and of GPT-NeoX (which MPT, OLMo and ModernBERT took over) state NFC, which GGUF has no
  // key for.
  if (is_one_of({"qwen2", "qwen35", "deepseek-r1-qwen", "mpt", "olmo", "modern-bert"}))
    parts.normalizer = Normalizer::nfc();
  parts.bpe.byte_level = parts.byte_alphabet = true;
  parts.bpe.ignore_merges = llama3 || is_one_of({"tekken", "gpt-4o", "llama4"});
  parts.bpe.unknown = find_id(metadata, "tokenizer.ggml.unknown_token_id", parts.spelling.size());
  read_special_ids(metadata, parts);

  for (size_t id = 0; id < parts.spelling.size(); ++id) {
    const bool normal = parts.kind[id] == TokenKind::normal;
    const auto bytes = normal ? byte_level_bytes(parts.spelling[id]) : std::nullopt;
    parts.bytes.push_back(bytes.value_or(parts.spelling[id]));
    parts.match.push_back(normal ? parts.bytes.back() : std::string());
  }
  read_merges(metadata, parts);
  parts.add_bos = metadata.flag("tokenizer.ggml.add_bos_token", llama3);
}

// WordPiece: files mark the tokens that begin a word, where BERT's vocabularies mark those that continue one. No key
// says that texts become lower case; llama.cpp always does it.
void read_word_piece(const JsonObject& metadata, TokenizerParts& parts) {
  const size_t count = parts.spelling.size();
  WordPieceOptions& options = parts.word_piece.emplace();
  parts.normalizer = Normalizer::bert_uncased();
  parts.pre_tokenizer = PreTokenizer::bert();
  // Early files name no tokens of BERT's own: they are at its vocabulary's places.
  const auto special = [&](const char* key, const char* older, const char* spelling) -> std::optional<uint32_t> {
    if (const auto id = find_id(metadata, key, count)) return id;
    if (const auto id = find_id(metadata, older, count)) return id;
    const auto found = std::find(parts.spelling.begin(), parts.spelling.end(), spelling);
    if (found == parts.spelling.end()) return std::nullopt;
    return static_cast<uint32_t>(found - parts.spelling.begin());
  };
  const auto unknown = special("tokenizer.ggml.unknown_token_id", "tokenizer.ggml.unknown_token_id", "[UNK]");
  if (!unknown) throw Error(Code::bad_file, "there is no unknown token", metadata.place());
  options.unknown = *unknown;
  parts.bos = special("tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id", "[CLS]");
  parts.input_end = special("tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id", "[SEP]");
  parts.mask = special("tokenizer.ggml.mask_token_id", "tokenizer.ggml.mask_token_id", "[MASK]");
  parts.add_bos = parts.bos.has_value();
  for (const auto& id : {unknown, parts.bos, parts.input_end, parts.mask})
    if (id) parts.kind[*id] = TokenKind::control;
  parts.leading_spaces = 1;
  parts.bytes.resize(count);
  parts.match.resize(count);
  for (size_t id = 0; id < count; ++id) {
    const std::string& spelling = parts.spelling[id];
    if (parts.kind[id] != TokenKind::normal && parts.kind[id] != TokenKind::user_defined) continue;
    const bool begins = spelling.starts_with(kSpaceMark);
    parts.match[id] = begins ? spelling.substr(kSpaceMark.size()) : options.continuation + spelling;
    parts.bytes[id] = word_piece_bytes(options, parts.match[id], true);
  }
}

}  // namespace

Tokenizer Tokenizer::from_gguf(const JsonValue& document, const std::string& place) {
  const JsonObject metadata(document, place);
  const auto model = metadata.find_text("tokenizer.ggml.model");
  if (!model) throw Error(Code::bad_file, "there is no 'tokenizer.ggml.model'", place);
  TokenizerParts parts;
  read_tokens(metadata, parts);
  if (*model == "llama" || *model == "t5") {
    read_sentencepiece(metadata, parts, *model == "t5");
  } else if (*model == "gpt2") {
    read_byte_level(metadata, parts);
  } else if (*model == "gemma4") {
    read_ranked_characters(metadata, parts);
  } else if (*model == "bert") {
    read_word_piece(metadata, parts);
  } else {
    throw Error(Code::unsupported, "not supported yet: the tokenizer model " + in_quotes(*model), place,
                "llama, gpt2, gemma4, t5 and bert are");
  }
  if (metadata.flag("tokenizer.ggml.add_eos_token", *model == "t5")) parts.input_end = parts.eos;
  for (size_t id = 0; id < parts.spelling.size(); ++id) {
    const TokenKind kind = parts.kind[id];
    const bool control = kind == TokenKind::control || kind == TokenKind::unknown;
    if ((control || kind == TokenKind::user_defined) && !parts.spelling[id].empty()) {
      parts.added.push_back({static_cast<uint32_t>(id), parts.spelling[id], control});
    }
  }
  mark_stripping(metadata.text("general.architecture", ""), *model, parts.added);
  parts.chat_template = metadata.text("tokenizer.chat_template", "");
  parts.tool_template = metadata.text("tokenizer.chat_template.tool_use", "");
  return Tokenizer(std::move(parts));
}

}  // namespace weft
