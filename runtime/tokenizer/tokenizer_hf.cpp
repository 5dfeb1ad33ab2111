// Tokenizers from the files of a Hugging Face folder (https://huggingface.co/docs/tokenizers).
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace weft {

namespace {

// Limit on the highest id, which decides the memory: kHoles times the number of entries, plus kHolesBase. Ids may leave
// holes.
constexpr size_t kHoles = 2, kHolesBase = 65536;
constexpr int kMaxNesting = 16;
constexpr size_t kMostCharacters = 1000;  // of a WordPiece word, which takes their square in time

class HfReader {
 public:
  HfReader(const JsonValue& tokenizer, const JsonValue& config, const JsonValue& generation, const std::string& place)
      : tokenizer_(tokenizer, place + ", tokenizer.json"),
        config_(config, place + ", tokenizer_config.json"),
        generation_(generation, place + ", generation_config.json"),
        place_(place) {}

  TokenizerParts read();

 private:
  void read_model();
  void read_word_piece(const JsonObject& model);
  void read_vocabulary(const JsonObject& model);
  void read_unigram(const JsonObject& model);
  size_t added_entries() const;
  void read_added(const JsonObject& item, uint32_t id);
  void read_all_added();
  void read_merges(const JsonObject& model);
  void read_decoder(const JsonObject& decoder, int depth);
  void read_special_tokens();
  void read_stop_ids();
  void read_chat_template();
  void fill_bytes();
  std::optional<std::string> end_of_template(const JsonObject& processor, bool last, int depth) const;
  std::optional<uint32_t> find_token(const std::string& spelling) const;
  std::optional<std::string> configured(const char* key) const;
  void put(uint32_t id, const std::string& spelling, TokenKind kind);
  [[noreturn]] void refuse(const std::string& sentence) const { throw Error(Code::bad_file, sentence, place_); }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(Code::unsupported, "not supported yet: " + what, place_);
  }

  const JsonObject tokenizer_, config_, generation_;
  const std::string& place_;
  TokenizerParts parts_;
  size_t entries_ = 0;  // tokens the files list
  TokenIds ids_;
  std::vector<bool> in_model_;  // by id: the model finds the token itself, not only as an added one
  std::vector<std::pair<std::string, std::string>> decoder_replacements_;
  bool decoder_cleans_ = true;  // of WordPiece
};

TokenizerParts HfReader::read() {
  if (tokenizer_.has("normalizer")) parts_.normalizer = Normalizer::from_json(tokenizer_.object("normalizer"));
  if (tokenizer_.has("pre_tokenizer"))
    parts_.pre_tokenizer = PreTokenizer::from_json(tokenizer_.object("pre_tokenizer"));
  parts_.byte_alphabet = parts_.normalizer.has_byte_level() || parts_.pre_tokenizer.has_byte_level();
  if (tokenizer_.has("decoder")) read_decoder(tokenizer_.object("decoder"), 0);
  read_model();
  read_special_tokens();
  read_stop_ids();
  fill_bytes();
  if (!parts_.unigram && !parts_.word_piece) read_merges(tokenizer_.object("model"));
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
  const JsonObject model = tokenizer_.object("model");
  const std::string type = model.text("type", "BPE");
  if (type != "BPE" && type != "Unigram" && type != "WordPiece") unsupported("the tokenizer model " + in_quotes(type));
  if (type == "WordPiece") parts_.word_piece.emplace();
  if (type == "BPE") parts_.bpe.byte_level = parts_.pre_tokenizer.leave_bytes();
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!parts_.word_piece && !model.text(key, "").empty()) unsupported(std::string("a tokenizer with a ") + key);
  }
  if (type == "Unigram") return read_unigram(model);
  read_vocabulary(model);
  parts_.bpe.ignore_merges = model.flag("ignore_merges", false);
  parts_.bpe.byte_fallback = model.flag("byte_fallback", false);
  parts_.bpe.fuse_unknown = model.flag("fuse_unk", false);
  read_all_added();
  if (parts_.word_piece) return read_word_piece(model);
  if (const auto unknown = model.find_text("unk_token")) {
    parts_.bpe.unknown = find_token(*unknown);
    if (parts_.bpe.unknown && parts_.kind[*parts_.bpe.unknown] == TokenKind::normal) {
      parts_.kind[*parts_.bpe.unknown] = TokenKind::unknown;
    }
  }
}

void HfReader::read_word_piece(const JsonObject& model) {
  WordPieceOptions& options = *parts_.word_piece;
  options.continuation = model.text("continuing_subword_prefix", "##");
  options.most_characters = model.find_integer("max_input_chars_per_word").value_or(100);
  if (options.most_characters > kMostCharacters)
    refuse("'max_input_chars_per_word' is " + std::to_string(options.most_characters) + ", expected at most " +
           std::to_string(kMostCharacters));
  const std::string spelling = model.text("unk_token", "[UNK]");
  const auto unknown = find_token(spelling);
  if (!unknown) refuse("the unknown token " + in_quotes(spelling) + " is no token");
  options.unknown = *unknown;
  parts_.leading_spaces = 1;
}

size_t HfReader::added_entries() const {
  const JsonValue* added = tokenizer_.find("added_tokens");
  const JsonValue* configured_tokens = config_.find("added_tokens_decoder");
  return (added == nullptr ? 0 : added->size()) + (configured_tokens == nullptr ? 0 : configured_tokens->size());
}

// A list of pieces and their log-probabilities; the places are the ids.
void HfReader::read_unigram(const JsonObject& model) {
  const JsonValue::Array& vocab = model.array("vocab");
  entries_ = vocab.size() + added_entries();
  for (const JsonValue& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[1].is_number())
      model.refuse("vocab", "a list of pieces with their scores", entry);
    const double score = entry[1].get<double>();
    if (!std::isfinite(score)) refuse("a token's score is not a finite number");
    const std::string& spelling = model.text_of(entry[0], "vocab");
    put(static_cast<uint32_t>(parts_.log_probabilities.size()), spelling,
        byte_token(spelling) ? TokenKind::byte : TokenKind::normal);
    parts_.log_probabilities.push_back(score);
  }
  const auto unknown = model.find_integer("unk_id");
  if (!unknown || *unknown >= parts_.spelling.size()) refuse("the tokenizer's model has no 'unk_id' that is a token");
  parts_.unigram = {*unknown, model.flag("byte_fallback", false)};
  parts_.bpe.unknown = *unknown;
  read_all_added();
  if (parts_.kind[*unknown] == TokenKind::normal) parts_.kind[*unknown] = TokenKind::unknown;
  parts_.log_probabilities.resize(parts_.spelling.size(), std::numeric_limits<double>::max());
}

void HfReader::read_vocabulary(const JsonObject& model) {
  model.object("vocab");  // it is one
  const JsonValue& vocab = model.at("vocab");
  entries_ = vocab.size() + added_entries();
  for (const auto& [spelling, value] : vocab.members()) {
    const uint32_t id = model.integer_of(value, "vocab", 0, UINT32_MAX);
    const bool byte = parts_.byte_alphabet ? false : byte_token(spelling).has_value();
    put(id, spelling, byte ? TokenKind::byte : TokenKind::normal);
  }
  if (parts_.spelling.empty()) refuse("the tokenizer's vocabulary is empty");
}

void HfReader::read_added(const JsonObject& item, uint32_t id) {
  AddedToken token;
  token.id = id;
  token.text = item.text("content", "");
  if (token.text.empty()) refuse("the added token " + std::to_string(id) + " has no 'content'");
  // Makers forget to mark some (Qwen's <|fim_prefix|>); what a user typed must not give them either.
  token.control = item.flag("special", false) || looks_like_control(token.text);
  token.lstrip = item.flag("lstrip", false);
  token.rstrip = item.flag("rstrip", false);
  token.single_word = item.flag("single_word", false);
  token.normalized = item.flag("normalized", !item.flag("special", false));
  put(id, token.text, token.control ? TokenKind::control : TokenKind::user_defined);
  parts_.added.push_back(std::move(token));
}

void HfReader::read_all_added() {
  for (const TokenKind kind : parts_.kind) in_model_.push_back(kind != TokenKind::missing);
  if (tokenizer_.has("added_tokens")) {
    for (const JsonValue& value : tokenizer_.array("added_tokens")) {
      const JsonObject item(value, tokenizer_.place() + ", added_tokens");
      read_added(item, item.integer("id", 0, UINT32_MAX));
    }
  }
  if (!config_.has("added_tokens_decoder")) return;
  const std::string place = config_.object("added_tokens_decoder").place();  // it is one
  for (const auto& [key, value] : config_.at("added_tokens_decoder").members()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      refuse("'added_tokens_decoder' has the id " + in_quotes(key));
    const bool known = id < parts_.kind.size() &&
                       (parts_.kind[id] == TokenKind::control || parts_.kind[id] == TokenKind::user_defined);
    if (!known) read_added(JsonObject(value, place + ", " + key), id);
  }
}

void HfReader::read_merges(const JsonObject& model) {
  for (const JsonValue& merge : model.array("merges")) {
    if (merge.is_array() && merge.size() == 2) {  // since tokenizers 0.20, for tokens that hold spaces
      add_merge(parts_, ids_, model.text_of(merge[0], "merges"), model.text_of(merge[1], "merges"), place_);
    } else {
      add_merge(parts_, ids_, model.text_of(merge, "merges"), place_);
    }
  }
}

void HfReader::read_decoder(const JsonObject& decoder, int depth) {
  if (depth > kMaxNesting) refuse("the tokenizer's decoders nest too deeply");
  const std::string type = decoder.text("type", "");
  if (type == "Sequence") {
    for (const JsonValue& item : decoder.array("decoders")) read_decoder(JsonObject(item, decoder.place()), depth + 1);
  } else if (type == "Replace") {
    const auto from = decoder.object("pattern").find_text("String");
    const std::string to = decoder.text("content", "");
    if (!from || from->empty() || to.size() > from->size())
      unsupported("a decoder's Replace that is not of a short text");
    decoder_replacements_.emplace_back(*from, to);
  } else if (type == "Strip") {
    const auto start = decoder.find_integer("start").value_or(0);
    const auto stop = decoder.find_integer("stop").value_or(0);
    if (decoder.text("content", "") != " " || stop != 0) {
      unsupported("a decoder's Strip of something but leading spaces");
    }
    parts_.leading_spaces = start;
  } else if (type == "Metaspace") {
    const std::string mark = decoder.text("replacement", "\xE2\x96\x81");
    if (mark.empty()) refuse("a Metaspace decoder's 'replacement' is empty");
    decoder_replacements_.emplace_back(mark, " ");
    const std::string scheme = decoder.text("prepend_scheme", "always");
    const bool prefix = decoder.flag("add_prefix_space", true);
    parts_.leading_spaces = prefix && scheme != "never" ? 1 : 0;
  } else if (type == "WordPiece") {
    decoder_cleans_ = decoder.flag("cleanup", true);
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
  const JsonValue* value = config_.find(key);
  return value != nullptr && value->is_object() ? config_.object(key).find_text("content") : config_.find_text(key);
}

// The token that a post-processor puts before a text or, with last, after it.
std::optional<std::string> HfReader::end_of_template(const JsonObject& processor, bool last, int depth) const {
  if (depth > kMaxNesting) refuse("the tokenizer's post-processors nest too deeply");
  const std::string type = processor.text("type", "");
  if (type == "Sequence") {
    for (const JsonValue& item : processor.array("processors")) {
      if (auto found = end_of_template(JsonObject(item, processor.place()), last, depth + 1)) return found;
    }
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const char* const key = last ? "sep" : "cls";  // spelling, id
    if (processor.array(key).empty()) processor.refuse(key, "a token's spelling and id");
    return processor.text_of(processor.array(key).front(), key);
  }
  if (type != "TemplateProcessing" || !processor.has("single") || processor.array("single").empty())
    return std::nullopt;
  const JsonValue::Array& single = processor.array("single");
  const JsonObject part(last ? single.back() : single.front(), processor.place() + ", single");
  return part.has("SpecialToken") ? part.object("SpecialToken").find_text("id") : std::nullopt;
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
  std::optional<std::string> first, last;
  if (tokenizer_.has("post_processor")) {
    first = end_of_template(tokenizer_.object("post_processor"), false, 0);
    last = end_of_template(tokenizer_.object("post_processor"), true, 0);
  }
  if (last) parts_.input_end = find_token(*last);
  parts_.mask = by_name("mask_token");
  if (!parts_.bos && first) parts_.bos = find_token(*first);
  const bool template_adds = first && parts_.bos && find_token(*first) == parts_.bos;
  parts_.add_bos = config_.flag("add_bos_token", template_adds) && parts_.bos;
}

void HfReader::read_stop_ids() {
  const auto checked = [&](const JsonValue& value, const char* key) {
    return generation_.integer_of(value, key, 0, static_cast<uint32_t>(parts_.spelling.size() - 1));
  };
  if (const JsonValue* ids = generation_.find("eos_token_id")) {
    const std::span<const JsonValue> list = ids->is_array() ? std::span(ids->items()) : std::span(ids, 1);
    for (const JsonValue& id : list) parts_.stop_ids.push_back(checked(id, "eos_token_id"));
  }
  if (!parts_.eos && !parts_.stop_ids.empty()) parts_.eos = parts_.stop_ids.front();
  if (generation_.has("bos_token_id") && !parts_.bos)
    parts_.bos = checked(generation_.at("bos_token_id"), "bos_token_id");
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
      // If a model works on bytes, no merge gives a token outside their alphabet.
      const bool merged_from_bytes = parts_.bpe.byte_level && kind == TokenKind::normal;
      if (id < in_model_.size() && in_model_[id])
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
  const JsonValue* source = config_.find("chat_template");
  if (source == nullptr || source->is_string()) {
    parts_.chat_template = config_.text("chat_template", "");
    return;
  }
  // Several, each with a name.
  for (const JsonValue& value : config_.array("chat_template")) {
    const JsonObject item(value, config_.place() + ", chat_template");
    const std::string name = item.text("name", "");
    if (name == "default") parts_.chat_template = item.text("template", "");
    if (name == "tool_use") parts_.tool_template = item.text("template", "");
  }
}

}  // namespace

TokenizerParts read_hf_tokenizer(const JsonValue& tokenizer, const JsonValue& config,
                                 const JsonValue& generation_config, const std::string& place) {
  return HfReader(tokenizer, config, generation_config, place).read();
}

Tokenizer Tokenizer::from_hf(const JsonValue& tokenizer, const JsonValue& config, const JsonValue& generation_config,
                             const std::string& place) {
  return Tokenizer(read_hf_tokenizer(tokenizer, config, generation_config, place));
}

}  // namespace weft
