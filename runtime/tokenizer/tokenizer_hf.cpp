// Tokenizers from the files of a Hugging Face folder (https://huggingface.co/docs/tokenizers).
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/json_reader.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace weft {

namespace {

using Json = nlohmann::json;

// Ids may leave holes, but the highest says how much is allocated: so many times the entries there are, and some.
constexpr size_t kHoles = 2, kHolesBase = 65536;
constexpr int kMaxNesting = 16;
constexpr size_t kMostCharacters = 1000;  // of a WordPiece word, which takes their square in time

class HfReader {
 public:
  HfReader(const Json& tokenizer, const Json& config, const Json& generation, const std::string& place)
      : tokenizer_(tokenizer), config_(config), generation_(generation), place_(place) {}

  TokenizerParts read();

 private:
  void read_model();
  void read_word_piece(const Json& model);
  void read_vocabulary(const Json& vocab);
  void read_unigram(const Json& model, const Json& vocab);
  size_t added_entries() const;
  void read_added(const Json& item, uint32_t id);
  void read_all_added();
  void read_merges(const Json& merges);
  void read_decoder(const Json& decoder, int depth);
  void read_special_tokens();
  void read_stop_ids();
  void read_chat_template();
  void fill_bytes();
  std::optional<std::string> end_of_template(const Json& processor, bool last, int depth) const;
  std::optional<uint32_t> find_token(const std::string& spelling) const;
  std::optional<std::string> configured(const char* key) const;
  void put(uint32_t id, const std::string& spelling, TokenKind kind);
  [[noreturn]] void refuse(const std::string& sentence) const { throw Error(Code::bad_file, sentence, place_); }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(Code::unsupported, "not supported yet: " + what, place_);
  }

  const Json& tokenizer_;
  const Json& config_;
  const Json& generation_;
  const std::string& place_;
  TokenizerParts parts_;
  size_t entries_ = 0;  // tokens the files list
  TokenIds ids_;
  std::vector<std::pair<std::string, std::string>> decoder_replacements_;
  bool decoder_cleans_ = true;  // of WordPiece
};

TokenizerParts HfReader::read() {
  json_reader::object(tokenizer_, "tokenizer.json", place_);
  const Json null;
  const auto member = [&](const char* key) -> const Json& {
    const Json* found = json_reader::find(tokenizer_, key);
    return found == nullptr ? null : *found;
  };
  parts_.normalizer = Normalizer::from_json(member("normalizer"), place_);
  parts_.pre_tokenizer = PreTokenizer::from_json(member("pre_tokenizer"), place_);
  parts_.byte_alphabet = parts_.normalizer.has_byte_level() || parts_.pre_tokenizer.has_byte_level();
  if (!member("decoder").is_null()) read_decoder(member("decoder"), 0);
  read_model();
  read_special_tokens();
  read_stop_ids();
  fill_bytes();
  if (!parts_.unigram && !parts_.word_piece) {
    const Json* merges = json_reader::find(member("model"), "merges");
    if (merges == nullptr) refuse("the tokenizer's model has no 'merges'");
    read_merges(*merges);
  }
  read_chat_template();
  return std::move(parts_);
}

void HfReader::put(uint32_t id, const std::string& spelling, TokenKind kind) {
  if (id >= kHoles * entries_ + kHolesBase) {
    refuse("the token " + in_quotes(spelling) + " has the id " + std::to_string(id) + " but there are only " +
           std::to_string(entries_) + " tokens");
  }
  if (id >= parts_.spelling.size()) {
    parts_.spelling.resize(size_t{id} + 1);
    parts_.kind.resize(size_t{id} + 1, TokenKind::missing);
  }
  if (parts_.kind[id] != TokenKind::missing && parts_.spelling[id] != spelling) {
    refuse("the tokens " + in_quotes(parts_.spelling[id]) + " and " + in_quotes(spelling) + " have the same id " +
           std::to_string(id));
  }
  parts_.spelling[id] = spelling;
  parts_.kind[id] = kind;
  ids_.emplace(spelling, id);
}

void HfReader::read_model() {
  const Json* model = json_reader::find(tokenizer_, "model");
  if (model == nullptr) refuse("tokenizer.json has no 'model'");
  json_reader::object(*model, "model", place_);
  const std::string type = json_reader::find_text(*model, "type", place_).value_or("BPE");
  if (type != "BPE" && type != "Unigram" && type != "WordPiece") unsupported("the tokenizer model " + in_quotes(type));
  if (type == "WordPiece") parts_.word_piece.emplace();
  if (type == "BPE") parts_.bpe.byte_level = parts_.pre_tokenizer.leave_bytes();
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!parts_.word_piece && !json_reader::find_text(*model, key, place_).value_or("").empty())
      unsupported(std::string("a tokenizer with a ") + key);
  }
  const Json* vocab = json_reader::find(*model, "vocab");
  if (vocab == nullptr) refuse("the tokenizer's model has no 'vocab'");
  if (type == "Unigram") return read_unigram(*model, *vocab);
  read_vocabulary(json_reader::object(*vocab, "vocab", place_));
  parts_.bpe.ignore_merges = json_reader::find_boolean(*model, "ignore_merges", false, place_);
  parts_.bpe.byte_fallback = json_reader::find_boolean(*model, "byte_fallback", false, place_);
  parts_.bpe.fuse_unknown = json_reader::find_boolean(*model, "fuse_unk", false, place_);
  read_all_added();
  if (parts_.word_piece) return read_word_piece(*model);
  if (const auto unknown = json_reader::find_text(*model, "unk_token", place_)) {
    parts_.bpe.unknown = find_token(*unknown);
    if (parts_.bpe.unknown && parts_.kind[*parts_.bpe.unknown] == TokenKind::normal) {
      parts_.kind[*parts_.bpe.unknown] = TokenKind::unknown;
    }
  }
}

void HfReader::read_word_piece(const Json& model) {
  WordPieceOptions& options = *parts_.word_piece;
  options.continuation = json_reader::find_text(model, "continuing_subword_prefix", place_).value_or("##");
  options.most_characters = json_reader::find_number(model, "max_input_chars_per_word", place_).value_or(100);
  if (options.most_characters > kMostCharacters)
    refuse("'max_input_chars_per_word' is " + std::to_string(options.most_characters) + ", expected at most " +
           std::to_string(kMostCharacters));
  const std::string spelling = json_reader::find_text(model, "unk_token", place_).value_or("[UNK]");
  const auto unknown = find_token(spelling);
  if (!unknown) refuse("the unknown token " + in_quotes(spelling) + " is no token");
  options.unknown = *unknown;
  parts_.leading_spaces = 1;
}

size_t HfReader::added_entries() const {
  const Json* added = json_reader::find(tokenizer_, "added_tokens");
  const Json* configured_tokens = json_reader::find(config_, "added_tokens_decoder");
  return (added == nullptr ? 0 : added->size()) + (configured_tokens == nullptr ? 0 : configured_tokens->size());
}

// A list of pieces and their log-probabilities; the places are the ids.
void HfReader::read_unigram(const Json& model, const Json& vocab) {
  entries_ = json_reader::array(vocab, "vocab", place_).size() + added_entries();
  for (const Json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[1].is_number())
      json_reader::refuse("vocab", "a list of pieces with their scores", entry, place_);
    const double score = entry[1].get<double>();
    if (!std::isfinite(score)) refuse("a token's score is not a finite number");
    const std::string& spelling = json_reader::text(entry[0], "vocab", place_);
    put(static_cast<uint32_t>(parts_.log_probabilities.size()), spelling,
        byte_token(spelling) ? TokenKind::byte : TokenKind::normal);
    parts_.log_probabilities.push_back(score);
  }
  const auto unknown = json_reader::find_number(model, "unk_id", place_);
  if (!unknown || *unknown >= parts_.spelling.size()) refuse("the tokenizer's model has no 'unk_id' that is a token");
  parts_.unigram = {*unknown, json_reader::find_boolean(model, "byte_fallback", false, place_)};
  parts_.bpe.unknown = *unknown;
  read_all_added();
  if (parts_.kind[*unknown] == TokenKind::normal) parts_.kind[*unknown] = TokenKind::unknown;
  parts_.log_probabilities.resize(parts_.spelling.size(), std::numeric_limits<double>::max());
}

void HfReader::read_vocabulary(const Json& vocab) {
  entries_ = vocab.size() + added_entries();
  for (const auto& item : vocab.items()) {
    const uint32_t id = json_reader::number(item.value(), "vocab", place_);
    const bool byte = parts_.byte_alphabet ? false : byte_token(item.key()).has_value();
    put(id, item.key(), byte ? TokenKind::byte : TokenKind::normal);
  }
  if (parts_.spelling.empty()) refuse("the tokenizer's vocabulary is empty");
}

void HfReader::read_added(const Json& item, uint32_t id) {
  AddedToken token;
  token.id = id;
  token.text = json_reader::find_text(item, "content", place_).value_or("");
  if (token.text.empty()) refuse("the added token " + std::to_string(id) + " has no 'content'");
  // Makers forget to mark some (Qwen's <|fim_prefix|>); what a user typed must not give them either.
  token.control = json_reader::find_boolean(item, "special", false, place_) || looks_like_control(token.text);
  token.lstrip = json_reader::find_boolean(item, "lstrip", false, place_);
  token.rstrip = json_reader::find_boolean(item, "rstrip", false, place_);
  token.single_word = json_reader::find_boolean(item, "single_word", false, place_);
  put(id, token.text, token.control ? TokenKind::control : TokenKind::user_defined);
  parts_.added.push_back(std::move(token));
}

void HfReader::read_all_added() {
  if (const Json* added = json_reader::find(tokenizer_, "added_tokens")) {
    for (const Json& item : json_reader::array(*added, "added_tokens", place_)) {
      const auto id = json_reader::find_number(json_reader::object(item, "added_tokens", place_), "id", place_);
      if (!id) refuse("an added token has no 'id'");
      read_added(item, *id);
    }
  }
  const Json* configured_tokens = json_reader::find(config_, "added_tokens_decoder");
  if (configured_tokens == nullptr) return;
  for (const auto& item : json_reader::object(*configured_tokens, "added_tokens_decoder", place_).items()) {
    const std::string& key = item.key();
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      refuse("'added_tokens_decoder' has the id " + in_quotes(key));
    const bool known = id < parts_.kind.size() &&
                       (parts_.kind[id] == TokenKind::control || parts_.kind[id] == TokenKind::user_defined);
    if (!known) read_added(json_reader::object(item.value(), "added_tokens_decoder", place_), id);
  }
}

void HfReader::read_merges(const Json& merges) {
  for (const Json& merge : json_reader::array(merges, "merges", place_)) {
    if (merge.is_array() && merge.size() == 2) {  // since tokenizers 0.20, for tokens that hold spaces
      add_merge(parts_, ids_, json_reader::text(merge[0], "merges", place_),
                json_reader::text(merge[1], "merges", place_), place_);
    } else {
      add_merge(parts_, ids_, json_reader::text(merge, "merges", place_), place_);
    }
  }
}

void HfReader::read_decoder(const Json& decoder, int depth) {
  if (depth > kMaxNesting) refuse("the tokenizer's decoders nest too deeply");
  json_reader::object(decoder, "decoder", place_);
  const std::string type = json_reader::find_text(decoder, "type", place_).value_or("");
  if (type == "Sequence") {
    const Json* list = json_reader::find(decoder, "decoders");
    if (list == nullptr) refuse("a Sequence decoder has no 'decoders'");
    for (const Json& item : json_reader::array(*list, "decoders", place_)) read_decoder(item, depth + 1);
  } else if (type == "Replace") {
    const Json* pattern = json_reader::find(decoder, "pattern");
    const auto from = pattern == nullptr ? std::nullopt : json_reader::find_text(*pattern, "String", place_);
    const std::string to = json_reader::find_text(decoder, "content", place_).value_or("");
    if (!from || from->empty() || to.size() > from->size())
      unsupported("a decoder's Replace that is not of a short text");
    decoder_replacements_.emplace_back(*from, to);
  } else if (type == "Strip") {
    const auto start = json_reader::find_number(decoder, "start", place_).value_or(0);
    const auto stop = json_reader::find_number(decoder, "stop", place_).value_or(0);
    if (json_reader::find_text(decoder, "content", place_).value_or("") != " " || stop != 0) {
      unsupported("a decoder's Strip of something but leading spaces");
    }
    parts_.leading_spaces = start;
  } else if (type == "Metaspace") {
    const std::string mark = json_reader::find_text(decoder, "replacement", place_).value_or("\xE2\x96\x81");
    if (mark.empty()) refuse("a Metaspace decoder's 'replacement' is empty");
    decoder_replacements_.emplace_back(mark, " ");
    const std::string scheme = json_reader::find_text(decoder, "prepend_scheme", place_).value_or("always");
    const bool prefix = json_reader::find_boolean(decoder, "add_prefix_space", true, place_);
    parts_.leading_spaces = prefix && scheme != "never" ? 1 : 0;
  } else if (type == "WordPiece") {
    decoder_cleans_ = json_reader::find_boolean(decoder, "cleanup", true, place_);
  } else if (type != "ByteLevel" && type != "ByteFallback" && type != "Fuse") {
    unsupported("the tokenizer's decoder " + in_quotes(type));
  }
}

std::optional<uint32_t> HfReader::find_token(const std::string& spelling) const {
  const auto it = ids_.find(spelling);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

// A special token of tokenizer_config.json: its spelling, or an object that holds it as "content".
std::optional<std::string> HfReader::configured(const char* key) const {
  const Json* value = json_reader::find(config_, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return json_reader::find_text(*value, "content", place_);
  return json_reader::text(*value, key, place_);
}

// The token a post-processor puts before a text, or behind it.
std::optional<std::string> HfReader::end_of_template(const Json& processor, bool last, int depth) const {
  if (depth > kMaxNesting) refuse("the tokenizer's post-processors nest too deeply");
  const std::string type = json_reader::find_text(processor, "type", place_).value_or("");
  if (type == "Sequence") {
    const Json* list = json_reader::find(processor, "processors");
    if (list == nullptr) return std::nullopt;
    for (const Json& item : json_reader::array(*list, "processors", place_)) {
      if (auto found = end_of_template(item, last, depth + 1)) return found;
    }
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const Json* pair = json_reader::find(processor, last ? "sep" : "cls");  // spelling, id
    if (pair == nullptr || !pair->is_array() || pair->empty()) refuse("a " + type + " has no 'cls' and 'sep'");
    return json_reader::text(pair->front(), type.c_str(), place_);
  }
  const Json* single = type == "TemplateProcessing" ? json_reader::find(processor, "single") : nullptr;
  if (single == nullptr || json_reader::array(*single, "single", place_).empty()) return std::nullopt;
  const Json* token = json_reader::find(last ? single->back() : single->front(), "SpecialToken");
  return token == nullptr ? std::nullopt : json_reader::find_text(*token, "id", place_);
}

void HfReader::read_special_tokens() {
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}) {
    if (const auto spelling = configured(name)) parts_.named[name] = *spelling;
  }
  const auto by_name = [&](const char* name) -> std::optional<uint32_t> {
    const auto it = parts_.named.find(name);
    return it == parts_.named.end() ? std::nullopt : find_token(it->second);
  };
  parts_.bos = by_name("bos_token");
  parts_.eos = by_name("eos_token");
  const Json* processor = json_reader::find(tokenizer_, "post_processor");
  const auto first = processor == nullptr ? std::nullopt : end_of_template(*processor, false, 0);
  const auto last = processor == nullptr ? std::nullopt : end_of_template(*processor, true, 0);
  if (last) parts_.input_end = find_token(*last);
  parts_.mask = by_name("mask_token");
  if (!parts_.bos && first) parts_.bos = find_token(*first);
  const bool template_adds = first && parts_.bos && find_token(*first) == parts_.bos;
  parts_.add_bos = json_reader::find_boolean(config_, "add_bos_token", template_adds, place_) && parts_.bos;
}

void HfReader::read_stop_ids() {
  const auto checked = [&](const Json& value, const char* key) {
    const uint32_t id = json_reader::number(value, key, place_);
    if (id >= parts_.spelling.size()) {
      refuse(std::string("generation_config.json has the ") + key + " " + std::to_string(id) + " but there are " +
             std::to_string(parts_.spelling.size()) + " tokens");
    }
    return id;
  };
  if (const Json* ids = json_reader::find(generation_, "eos_token_id")) {
    if (ids->is_array()) {
      for (const Json& id : *ids) parts_.stop_ids.push_back(checked(id, "eos_token_id"));
    } else {
      parts_.stop_ids.push_back(checked(*ids, "eos_token_id"));
    }
  }
  if (!parts_.eos && !parts_.stop_ids.empty()) parts_.eos = parts_.stop_ids.front();
  if (const Json* id = json_reader::find(generation_, "bos_token_id"); id != nullptr && !parts_.bos) {
    parts_.bos = checked(*id, "bos_token_id");
  }
  if (parts_.bos) parts_.named.emplace("bos_token", parts_.spelling[*parts_.bos]);
  if (parts_.eos) parts_.named.emplace("eos_token", parts_.spelling[*parts_.eos]);
  finish_stop_ids(parts_);
  for (AddedToken& token : parts_.added) token.control = parts_.kind[token.id] == TokenKind::control;
}

void HfReader::fill_bytes() {
  const size_t count = parts_.spelling.size();
  parts_.bytes.resize(count);
  parts_.match.resize(count);
  for (size_t id = 0; id < count; ++id) {
    const std::string& spelling = parts_.spelling[id];
    const TokenKind kind = parts_.kind[id];
    if (kind == TokenKind::byte) {
      const unsigned char byte = byte_token(spelling).value_or(0);
      parts_.byte_ids[byte] = static_cast<uint32_t>(id);
      parts_.bytes[id] = static_cast<char>(byte);
    } else if (kind == TokenKind::normal || kind == TokenKind::user_defined) {
      std::string bytes = spelling;
      if (parts_.word_piece) bytes = word_piece_bytes(*parts_.word_piece, spelling, decoder_cleans_);
      const auto spelled =
          parts_.byte_alphabet && kind == TokenKind::normal ? byte_level_bytes(spelling) : std::nullopt;
      if (spelled) bytes = *spelled;
      // Where a model works on bytes, no merge gives a token outside their alphabet.
      const bool merged_from_bytes = parts_.bpe.byte_level && kind == TokenKind::normal;
      parts_.match[id] = merged_from_bytes ? spelled.value_or("") : spelling;
      for (const auto& [from, to] : decoder_replacements_) {
        for (size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size())
          bytes.replace(at, from.size(), to);
      }
      parts_.bytes[id] = std::move(bytes);
    }
  }
}

void HfReader::read_chat_template() {
  const Json* source = json_reader::find(config_, "chat_template");
  if (source == nullptr) return;
  if (source->is_string()) {
    parts_.chat_template = source->get<std::string>();
    return;
  }
  // Several, each with a name.
  for (const Json& item : json_reader::array(*source, "chat_template", place_)) {
    if (json_reader::find_text(item, "name", place_).value_or("") == "default") {
      parts_.chat_template = json_reader::find_text(item, "template", place_).value_or("");
    }
  }
}

}  // namespace

TokenizerParts read_hf_tokenizer(const Json& tokenizer, const Json& config, const Json& generation_config,
                                 const std::string& place) {
  return HfReader(tokenizer, config, generation_config, place).read();
}

Tokenizer Tokenizer::from_hf(const Json& tokenizer, const Json& config, const Json& generation_config,
                             const std::string& place) {
  return Tokenizer(read_hf_tokenizer(tokenizer, config, generation_config, place));
}

}  // namespace weft
