#include "convert/gguf_tokenizer.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace weft {
namespace {

const std::string kSpaceMark = "\xE2\x96\x81";  // U+2581

[[noreturn]] void refuse(const std::string& what, const std::string& place) {
  throw Error(Code::unsupported, "the tokenizer has no GGUF form: " + what, place,
              "convert the model with its maker's tools, and then the GGUF file with weft");
}

int token_type(TokenKind kind) {
  switch (kind) {
    case TokenKind::normal:
      return 1;
    case TokenKind::unknown:
      return 2;
    case TokenKind::control:
      return 3;
    case TokenKind::user_defined:
      return 4;
    case TokenKind::missing:
      return 5;
    case TokenKind::byte:
      return 6;
  }
  return 5;
}

// Keys of both models.
JsonValue common_keys(const TokenizerParts& parts, uint32_t rows, const std::string& place) {
  if (parts.spelling.size() > rows) {
    throw Error(Code::bad_file,
                "the tokenizer has " + std::to_string(parts.spelling.size()) + " ids, the vocabulary table " +
                    std::to_string(rows) + " rows",
                place);
  }
  JsonValue tokens = JsonValue::array(), types = JsonValue::array();
  for (uint32_t id = 0; id < rows; ++id) {
    TokenKind kind = id < parts.kind.size() ? parts.kind[id] : TokenKind::missing;
    if (id == parts.bpe.unknown) kind = TokenKind::unknown;
    tokens.push_back(kind == TokenKind::missing ? "[PAD" + std::to_string(id) + "]" : parts.spelling[id]);
    types.push_back(token_type(kind));
  }
  JsonValue keys = {{"tokenizer.ggml.tokens", std::move(tokens)}, {"tokenizer.ggml.token_type", std::move(types)}};
  const auto set = [&](const char* key, std::optional<uint32_t> id) {
    if (id) keys[key] = *id;
  };
  const auto named = [&](const char* name) -> std::optional<uint32_t> {
    const auto spelling = parts.named.find(name);
    if (spelling == parts.named.end()) return std::nullopt;
    const auto at = std::find(parts.spelling.begin(), parts.spelling.end(), spelling->second);
    if (at == parts.spelling.end()) return std::nullopt;
    return static_cast<uint32_t>(at - parts.spelling.begin());
  };
  // The one key names the token after a text to embed, too.
  const std::optional<uint32_t> eos = parts.input_end ? parts.input_end : parts.eos;
  set("tokenizer.ggml.bos_token_id", parts.bos);
  set("tokenizer.ggml.eos_token_id", eos);
  set("tokenizer.ggml.unknown_token_id", parts.bpe.unknown ? parts.bpe.unknown : named("unk_token"));
  set("tokenizer.ggml.padding_token_id", named("pad_token"));
  // Further ends of generation; GGUF has two keys for them, and readers know some by their spelling.
  std::vector<uint32_t> ends = parts.stop_ids;
  if (eos) std::erase(ends, *eos);
  if (!ends.empty()) keys["tokenizer.ggml.eot_token_id"] = ends[0];
  if (ends.size() > 1) keys["tokenizer.ggml.eom_token_id"] = ends[1];
  keys["tokenizer.ggml.add_bos_token"] = parts.add_bos;
  keys["tokenizer.ggml.add_eos_token"] = parts.input_end.has_value();
  if (!parts.chat_template.empty()) keys["tokenizer.chat_template"] = parts.chat_template;
  if (!parts.tool_template.empty()) {
    keys["tokenizer.chat_template.tool_use"] = parts.tool_template;
    keys["tokenizer.chat_templates"] = JsonValue::array();
    keys["tokenizer.chat_templates"].push_back("tool_use");
  }
  return keys;
}

JsonValue merges_of(const TokenizerParts& parts) {
  JsonValue merges = JsonValue::array();
  for (const Bpe::Merge& merge : parts.merges)
    merges.push_back(parts.spelling[merge.left] + " " + parts.spelling[merge.right]);
  return merges;
}

std::vector<JsonValue> byte_level_forms(const TokenizerParts& parts, JsonValue keys, const std::string& place) {
  keys["tokenizer.ggml.model"] = "gpt2";
  keys["tokenizer.ggml.merges"] = merges_of(parts);
  std::vector<JsonValue> forms;
  for (const std::string& name : parts.pre_tokenizer.gguf_names()) {
    keys["tokenizer.ggml.pre"] = name;
    forms.push_back(keys);
  }
  if (forms.empty()) refuse("no pre-tokenizer Weft knows cuts texts by its patterns", place);
  return forms;
}

// SentencePiece merges any two neighbours that make a token, the token of the highest score first. Merges by rank do
// the same under two conditions: all merges to one token stand together, and no two neighbours are left that make a
// token without a merge. The second needs no context: no merge crosses the borders of a token in a result, so merging
// inside it goes as for its text alone, and two tokens are neighbours only if they are the result of their own texts.
//
// Runs of spaces may share one score, as they do in Llama 2's vocabulary, whose merges then stand in the order of their
// parts. SentencePiece merges equals from the left; where merges do not, the two cut runs longer than the longest token
// at other places.
bool is_spaces(const std::string& spelling) {
  for (size_t at = 0; at < spelling.size(); at += kSpaceMark.size())
    if (spelling.compare(at, kSpaceMark.size(), kSpaceMark) != 0) return false;
  return true;
}

JsonValue scores_of(const TokenizerParts& parts, uint32_t rows, const std::string& place) {
  std::vector<std::vector<uint32_t>> groups;  // tokens of one score, the highest first
  std::vector<size_t> group_of(rows, SIZE_MAX);
  std::unordered_set<uint64_t> pairs;
  for (const Bpe::Merge& merge : parts.merges) {
    pairs.insert(uint64_t{merge.left} << 32 | merge.right);
    if (group_of[merge.result] == SIZE_MAX) {
      group_of[merge.result] = groups.size();
      groups.push_back({merge.result});
    }
    for (const size_t group = group_of[merge.result]; group + 1 < groups.size(); groups.pop_back()) {
      for (const uint32_t id : {groups.back().front(), groups[group].front()})
        if (!is_spaces(parts.spelling[id]))
          refuse("the merges to " + in_quotes(parts.spelling[merge.result]) + " do not stand together", place);
      for (const uint32_t id : groups.back()) group_of[id] = group;
      groups[group].insert(groups[group].end(), groups.back().begin(), groups.back().end());
    }
  }
  std::vector<double> scores(rows, 0);
  for (size_t group = 0; group < groups.size(); ++group)
    for (const uint32_t id : groups[group]) scores[id] = -static_cast<double>(group + 1);
  TokenIds ids;
  for (uint32_t id = 0; id < parts.spelling.size(); ++id)
    if (parts.kind[id] == TokenKind::normal) ids.emplace(parts.spelling[id], id);
  const Bpe bpe(parts.bpe, parts.match, parts.byte_ids, parts.merges);
  Bpe::Scratch scratch;
  for (const auto& [spelling, id] : ids) {
    for (size_t cut = 1; cut < spelling.size(); ++cut) {
      if ((static_cast<unsigned char>(spelling[cut]) & 0xc0) == 0x80) continue;
      const auto left = ids.find(spelling.substr(0, cut)), right = ids.find(spelling.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      if (pairs.contains(uint64_t{left->second} << 32 | right->second)) continue;
      std::vector<uint32_t> result;
      bpe.encode(spelling, scratch, result);
      if (result == std::vector<uint32_t>{left->second, right->second})
        refuse("there is no merge of " + in_quotes(left->first) + " and " + in_quotes(right->first) + " to " +
                   in_quotes(spelling),
               place);
    }
  }
  return scores;
}

std::vector<JsonValue> sentencepiece_forms(const TokenizerParts& parts, JsonValue keys, uint32_t rows,
                                           const std::string& place) {
  keys["tokenizer.ggml.model"] = "llama";
  keys["tokenizer.ggml.pre"] = "default";
  keys["tokenizer.ggml.scores"] = scores_of(parts, rows, place);
  std::vector<JsonValue> forms;
  for (const bool prefix : {true, false}) {
    keys["tokenizer.ggml.add_space_prefix"] = prefix;
    forms.push_back(keys);
  }
  return forms;
}

// Merges of characters by rank, without scores.
std::vector<JsonValue> gemma4_forms(const TokenizerParts& parts, JsonValue keys) {
  keys["tokenizer.ggml.model"] = "gemma4";
  keys["tokenizer.ggml.merges"] = merges_of(parts);
  keys["tokenizer.ggml.add_space_prefix"] = false;
  return {std::move(keys)};
}

std::vector<JsonValue> forms_of(const TokenizerParts& parts, std::string_view architecture, uint32_t rows,
                                const std::string& place) {
  JsonValue common = common_keys(parts, rows, place);
  if (parts.bpe.byte_level) return byte_level_forms(parts, std::move(common), place);
  if (architecture == "gemma4") return gemma4_forms(parts, std::move(common));
  return sentencepiece_forms(parts, std::move(common), rows, place);
}

// Texts that tell tokenizers apart, and the vocabulary's own.
std::vector<std::string> probes(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = {
      "Once upon a time, there was a little girl named Lily.",
      "I'll say IT'S what they'd've said; WE'RE here's 'tis",
      " leading  and   several    spaces ",
      "tabs\tand\n\nline\r\nends \n  \n\t x",
      "12345 3.14159 1,000,000 2024-05-17 \xd9\xa3\xd9\xa4",
      "f(x) { return a[i] += b->c != 0; } // !!! ??? ... === <|x|> </s>",
      "caf\xc3\xa9 cafe\xcc\x81 na\xc3\xafve Stra\xc3\x9f"
      "e \xef\xac\x81 \xc2\xbd \xe2\x84\xab",
      "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82, \xd0\xbc\xd0\xb8\xd1\x80! \xce\xb1\xce\xb2\xce\xb3",
      "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c \xe3\x81\x93\xe3\x82\x93 \xed\x95\x9c\xea\xb8\x80",
      "\xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7 "
      "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87",
      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac \xf0\x9f\x87\xa9\xf0\x9f\x87\xaa \xe2\x9c\x93",
      "\xe2\x96\x81 marks \xe2\x96\x81\xe2\x96\x81x",
      "x",
      " ",
      "\n"};
  constexpr uint32_t kTokens = 4096, kPerText = 16;
  const uint32_t step = std::max(1u, tokenizer.size() / kTokens);
  for (uint32_t id = 0; id < tokenizer.size();) {
    std::string text;
    for (uint32_t i = 0; i < kPerText && id < tokenizer.size(); ++i, id += step)
      if (const std::string token = tokenizer.bytes(id); token.find_first_not_of(' ') != std::string::npos)
        text += token;
    texts.push_back(std::move(text));
  }
  return texts;
}

// The first difference between two tokenizers, or nothing.
std::string difference(const Tokenizer& a, const Tokenizer& b, std::optional<uint32_t> unknown) {
  if (a.add_bos() != b.add_bos() || a.bos() != b.bos()) return "its begin-of-text token";
  if ((b.input_end() ? a.input_end() != b.input_end() : a.eos() != b.eos()) || a.stop_ids() != b.stop_ids())
    return "the tokens that end a text";
  for (const std::string& text : probes(a))
    for (const auto special : {Tokenizer::Special::plain, Tokenizer::Special::parse}) {
      const std::vector<uint32_t> ids = a.encode(text, special);
      // Runs of characters that no token can write may give one unknown token here and several there.
      if (unknown && std::find(ids.begin(), ids.end(), *unknown) != ids.end()) continue;
      if (ids != b.encode(text, special) || a.decode(ids) != b.decode(ids)) return "the text " + in_quotes(text);
    }
  return {};
}

// GGUF finds all added tokens in the text as it is, and has no key for those that are found in normalized text.
JsonValue without_normalized(JsonValue file, const char* list) {
  if (!file.contains(list)) return file;
  JsonValue& tokens = file[list];
  if (tokens.is_array()) {
    for (JsonValue& token : tokens.items())
      if (token.is_object()) token["normalized"] = false;
  } else if (tokens.is_object()) {
    for (auto& [id, token] : tokens.members())
      if (token.is_object()) token["normalized"] = false;
  }
  return file;
}

}  // namespace

JsonValue gguf_tokenizer(const JsonValue& tokenizer, const JsonValue& config, const JsonValue& generation_config,
                         std::string_view architecture, bool embeds, uint32_t rows, const std::string& place) {
  TokenizerParts parts = read_hf_tokenizer(tokenizer, config, generation_config, place);
  if (!embeds) parts.input_end.reset();
  const Tokenizer wanted =
      Tokenizer::from_hf(without_normalized(tokenizer, "added_tokens"),
                         without_normalized(config, "added_tokens_decoder"), generation_config, place);
  if (parts.unigram) refuse("its model is a unigram model, not BPE", place);
  std::vector<JsonValue> forms = forms_of(parts, architecture, rows, place);
  std::vector<AddedToken> read = parts.added;
  for (AddedToken& token : read) token.lstrip = token.rstrip = false;
  mark_stripping(architecture, forms.front()["tokenizer.ggml.model"].text(), read);
  for (size_t i = 0; i < read.size(); ++i) {
    const AddedToken& token = parts.added[i];
    if ((token.lstrip && !read[i].lstrip) || (token.rstrip && !read[i].rstrip) || token.single_word)
      refuse("the added token " + in_quotes(token.text) + " looks at the characters beside it", place);
  }
  std::string different;
  for (JsonValue& form : forms) {
    form["general.architecture"] = std::string(architecture);
    different = difference(wanted, Tokenizer::from_gguf(form, place), parts.bpe.unknown);
    form.erase("general.architecture");
    if (different.empty()) return std::move(form);
  }
  refuse("its nearest one differs in " + different, place);
}

}  // namespace weft
