#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_level.h"

namespace weft {

namespace {

constexpr int kMaxNesting = 16;
constexpr size_t kMaxSteps = 64;
// ByteLevel doubles a text that is not ASCII, and a Sequence may hold many.
constexpr size_t kMaxGrowth = 64, kMaxGrowthBase = 4096;

// The patterns are published with the models' tokenizers: GPT-2's encoder.py, and the tokenizer.json of Llama 3, Qwen 2
// and 3.5, BLOOM, Mistral NeMo, gpt-oss, Seed-Coder and DeepSeek's models. Which name stands for which is llama.cpp's
// choice (llama-vocab.cpp), since it gave the names.
const char* const kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Punctuation as BERT defines it: Unicode's, and every ASCII character that is no letter, digit or space.
const char* const kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";
const char* const kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)";
const char* const kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kBloom = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+";
const char* const kDeepSeekCjk = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
const char* const kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of scripts that have cases: Latin, Greek, Cyrillic, Armenian and so on.
const char* const kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
const char* const kDeepSeekPunctuation = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";

// A name of tokenizer.ggml.pre and the patterns it applies one after the other, each cutting the pieces of the one
// before.
struct Named {
  const char* name;
  std::array<const char*, 6> patterns;
};
constexpr const char* kDigit = R"(\p{N})";
const Named kNamed[] = {
    {"gpt-2", {kGpt2}},
    {"gpt2", {kGpt2}},
    {"phi-2", {kGpt2}},
    {"mpt", {kGpt2}},
    {"olmo", {kGpt2}},
    {"jais", {kGpt2}},
    {"exaone4", {kGpt2}},
    {"roberta-bpe", {kGpt2}},
    {"modern-bert", {kGpt2}},
    {"a.x-4.0", {kGpt2}},
    {"gigachat", {kGpt2}},
    {"granite-docling", {kGpt2}},
    {"jina-de", {kGpt2}},
    {"jina-es", {kGpt2}},
    {"mellum", {kGpt2}},
    {"trillion", {kGpt2}},
    {"llama-bpe", {kLlama3}},
    {"llama3", {kLlama3}},
    {"llama-v3", {kLlama3}},
    {"falcon3", {kLlama3}},
    {"lfm2", {kLlama3}},
    {"falcon-h1", {kLlama3}},
    {"midm-2.0", {kLlama3}},
    {"pixtral", {kLlama3}},
    {"dbrx", {kLlama3}},
    {"smaug-bpe", {kLlama3}},
    {"chatglm-bpe", {kLlama3}},
    {"glm4", {kLlama3}},
    {"jais-2", {kJais2}},
    {"qwen2", {kQwen2}},
    {"deepseek-r1-qwen", {kQwen2}},
    {"stablelm2", {kQwen2}},
    {"megrez", {kQwen2}},
    {"grok-2", {kQwen2}},
    {"hunyuan", {kQwen2}},
    {"kormo", {kQwen2}},
    {"solar-open", {kQwen2}},
    {"qwen35", {kQwen35}},
    {"smollm", {kDigit, kGpt2}},
    {"starcoder", {kDigit, kGpt2}},
    {"refact", {kDigit, kGpt2}},
    {"command-r", {kDigit, kGpt2}},
    {"codeshell", {kDigit, kGpt2}},
    {"exaone", {kDigit, kGpt2}},
    {"minerva-7b", {kDigit, kGpt2}},
    {"mellum2", {kDigit, kGpt2}},
    {"bloom", {kBloom}},
    {"gpt3-finnish", {kBloom}},
    {"poro-chat", {kBloom}},
    {"viking", {kBloom, kDigit}},
    {"tekken", {kTekken}},
    {"gpt-4o", {kGpt4o}},
    {"llama4", {kGpt4o}},
    {"kanana2", {kGpt4o}},
    {"minimax-m2", {kGpt4o}},
    {"deepseek-llm", {"[\r\n]", kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kDeepSeekCjk, R"(\p{N}+)"}},
    {"deepseek-coder", {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kDigit}},
    {"deepseek-v3", {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", kDeepSeekV3}},
    {"hunyuan-dense", {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", kDeepSeekV3}},
    {"seed-coder", {kSeedCoder}},
    {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
};

std::vector<Span> find_literal(std::string_view text, const std::string& literal) {
  std::vector<Span> out;
  if (literal.empty()) return out;
  for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size()) {
    out.push_back({at, at + literal.size()});
  }
  return out;
}

std::string replace_spaces(std::string_view text, const std::string& mark) {
  std::string out;
  for (const char c : text) {
    if (c == ' ')
      out += mark;
    else
      out += c;
  }
  return out;
}

std::string one_character(const JsonObject& json, const char* key, const char* fallback) {
  const std::string text = json.text(key, fallback);
  if (text.empty() || first_utf8(text).size != text.size()) json.refuse(key, "one character");
  return text;
}

}  // namespace

PreTokenizer PreTokenizer::from_name(const std::string& name, const std::string& place) {
  PreTokenizer out;
  out.bytes_left_ = true;
  for (const Named& named : kNamed) {
    if (name != named.name) continue;
    for (const char* pattern : named.patterns) {
      if (pattern != nullptr) out.add_regex(pattern, Behavior::isolated, place);
    }
    return out;
  }
  throw Error(Code::unsupported, "not supported yet: the pre-tokenizer " + in_quotes(name), place,
              "gpt-2, llama-bpe, qwen2, smollm, deepseek-coder, bloom and their like are");
}

std::vector<std::string> PreTokenizer::gguf_names() const {
  std::vector<std::string> patterns;
  for (const Step& step : steps_) {
    const bool plain = step.kind == Kind::split && step.regex && step.behavior == Behavior::isolated && !step.invert;
    if (!plain) return {};
    patterns.push_back(step.regex->pattern());
  }
  std::vector<std::string> names;
  for (const Named& named : kNamed) {
    const auto end = std::find(named.patterns.begin(), named.patterns.end(), nullptr);
    const bool same = bytes_left_ && std::equal(patterns.begin(), patterns.end(), named.patterns.begin(), end);
    if (same) names.emplace_back(named.name);
  }
  return names;
}

PreTokenizer PreTokenizer::bert() {
  PreTokenizer out;
  out.add_bert({});
  return out;
}

PreTokenizer PreTokenizer::lines() {
  PreTokenizer out;
  out.add_regex(R"([^\n]+|\n+)", Behavior::isolated, {});
  return out;
}

void PreTokenizer::add_bert(const std::string& place) {
  add_regex(R"(\s)", Behavior::removed, place);
  add_regex(kPunctuation, Behavior::isolated, place);
}

PreTokenizer PreTokenizer::from_json(const JsonObject& json) {
  PreTokenizer out;
  out.add_json(json, 0);
  return out;
}

void PreTokenizer::add_regex(const std::string& pattern, Behavior behavior, const std::string& place) {
  Step step;
  step.regex.emplace(pattern, place);
  step.behavior = behavior;
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_json(const JsonObject& json, int depth) {
  const std::string& place = json.place();
  const std::string type = json.text("type", "");
  if (depth > kMaxNesting || steps_.size() > kMaxSteps) {
    throw Error(Code::bad_file, "the tokenizer has too many pre-tokenizers in a row", place);
  }
  if (type == "Sequence") {
    for (const auto& item : json.array("pretokenizers")) add_json(JsonObject(item, place), depth + 1);
  } else if (type == "Split") {
    add_split(json);
  } else if (type == "ByteLevel") {
    add_byte_level(json);
  } else if (type == "Metaspace") {
    add_metaspace(json);
  } else if (type == "Digits") {
    const bool single = json.flag("individual_digits", false);
    add_regex(kDigit, single ? Behavior::isolated : Behavior::contiguous, place);
  } else if (type == "Punctuation") {
    const std::string behavior = json.text("behavior", "Isolated");
    add_regex(kPunctuation, behavior_named(behavior, place), place);
  } else if (type == "BertPreTokenizer") {
    add_bert(place);
  } else if (type == "Whitespace") {
    // Not Oniguruma's \w: Hugging Face uses the crate regex here, whose \w follows Unicode's annex 18.
    add_regex(
        R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)",
        Behavior::removed, place);
    steps_.back().invert = true;
  } else if (type == "WhitespaceSplit") {
    add_regex(R"(\s)", Behavior::removed, place);
  } else if (type == "CharDelimiterSplit") {
    Step step;
    step.literal = one_character(json, "delimiter", "");
    step.behavior = Behavior::removed;
    steps_.push_back(std::move(step));
  } else if (type == "FixedLength") {
    Step step;
    step.kind = Kind::fixed_length;
    step.length = json.integer("length", 1, UINT32_MAX, 5);
    steps_.push_back(std::move(step));
  } else {
    throw Error(Code::unsupported, "not supported yet: the pre-tokenizer " + in_quotes(type), place);
  }
}

PreTokenizer::Behavior PreTokenizer::behavior_named(const std::string& name, const std::string& place) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  throw Error(Code::bad_file, "no pre-tokenizer splits with the behavior " + in_quotes(name), place);
}

void PreTokenizer::add_split(const JsonObject& json) {
  Step step;
  const JsonObject pattern = json.object("pattern");
  if (const auto literal = pattern.find_text("String")) {
    step.literal = *literal;
  } else if (const auto regex = pattern.find_text("Regex")) {
    step.regex.emplace(*regex, json.place());
  } else {
    throw Error(Code::bad_file, "a Split pre-tokenizer's pattern is neither a String nor a Regex", json.place());
  }
  step.behavior = behavior_named(json.text("behavior", "Isolated"), json.place());
  step.invert = json.flag("invert", false);
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_byte_level(const JsonObject& json) {
  if (json.flag("add_prefix_space", true)) {
    Step step;
    step.kind = Kind::prefix_space;
    steps_.push_back(std::move(step));
  }
  if (json.flag("use_regex", true)) add_regex(kGpt2, Behavior::isolated, json.place());
  Step step;
  step.kind = Kind::byte_level;
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_metaspace(const JsonObject& json) {
  Step step;
  step.kind = Kind::metaspace;
  step.literal = one_character(json, "replacement", "\xE2\x96\x81");
  const std::string scheme = json.text("prepend_scheme", "always");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw Error(Code::bad_file, "a Metaspace pre-tokenizer has the prepend_scheme " + in_quotes(scheme), json.place());
  }
  step.prefix = scheme == "always" ? Prefix::always : scheme == "first" ? Prefix::first : Prefix::never;
  if (!json.flag("add_prefix_space", true)) step.prefix = Prefix::never;
  const std::string mark = step.literal;
  steps_.push_back(std::move(step));
  if (json.flag("split", true)) {
    Step split;
    split.literal = mark;
    split.behavior = Behavior::merged_with_next;
    steps_.push_back(std::move(split));
  }
}

bool PreTokenizer::has_byte_level() const {
  return bytes_left_ ||
         std::any_of(steps_.begin(), steps_.end(), [](const Step& s) { return s.kind == Kind::byte_level; });
}

bool PreTokenizer::leave_bytes() {
  bytes_left_ = !steps_.empty() && steps_.back().kind == Kind::byte_level;
  if (bytes_left_) steps_.pop_back();
  return bytes_left_;
}

PreTokenizer::Pieces PreTokenizer::split(std::string text, size_t origin) const {
  Pieces pieces;
  if (text.empty()) return pieces;
  const size_t most = kMaxGrowthBase + kMaxGrowth * text.size();
  if (origin > 0) pieces.origins.push_back(origin);
  pieces.ends.push_back(text.size());
  pieces.text = std::move(text);
  for (const Step& step : steps_) {
    const bool splits = step.kind == Kind::split || step.kind == Kind::fixed_length;
    pieces = splits ? split_step(step, std::move(pieces)) : rewrite_step(step, pieces);
    if (pieces.text.size() > most)
      throw Error(Code::bad_file,
                  "the tokenizer's pre-tokenizers make a text longer than " + std::to_string(most) + " bytes");
  }
  return pieces;
}

// Parts of one piece after a splitting step.
std::vector<Span> PreTokenizer::parts_of(const Step& step, std::string_view piece) {
  std::vector<Span> parts;
  if (step.kind == Kind::fixed_length) {
    for (size_t at = 0, begin = 0; at < piece.size(); begin = at) {
      for (size_t i = 0; i < step.length && at < piece.size(); ++i) at += first_utf8(piece.substr(at)).size;
      parts.push_back({begin, at});
    }
    return parts;
  }
  // Adds a segment, which is a delimiter or what is between two; before: whether the segment before was a delimiter.
  std::optional<bool> before;
  const auto add = [&](Span span, bool delimiter) {
    bool joined = false;
    if (step.behavior == Behavior::contiguous) joined = before == delimiter;
    if (step.behavior == Behavior::merged_with_previous) joined = before == false && delimiter;
    if (step.behavior == Behavior::merged_with_next) joined = before == true && !delimiter;
    before = delimiter;
    if (step.behavior == Behavior::removed && delimiter) return;
    if (joined)
      parts.back().end = span.end;
    else
      parts.push_back(span);
  };
  size_t at = 0;
  for (const Span& span : step.regex ? step.regex->find_all(piece) : find_literal(piece, step.literal)) {
    if (span.begin > at) add({at, span.begin}, step.invert);
    add(span, !step.invert);
    at = span.end;
  }
  if (at < piece.size()) add({at, piece.size()}, step.invert);
  return parts;
}

PreTokenizer::Pieces PreTokenizer::split_step(const Step& step, Pieces pieces) {
  Pieces out;
  const bool removes = step.behavior == Behavior::removed;
  size_t begin = 0;
  for (size_t i = 0; i < pieces.ends.size(); ++i) {
    const std::string_view piece = std::string_view(pieces.text).substr(begin, pieces.ends[i] - begin);
    const size_t origin = i < pieces.origins.size() ? pieces.origins[i] : 0;
    for (const Span& part : parts_of(step, piece)) {
      if (removes) out.text.append(piece, part.begin, part.end - part.begin);
      out.ends.push_back(removes ? out.text.size() : begin + part.end);
      if (part.begin < origin) out.origins.push_back(std::min(origin, part.end) - part.begin);
    }
    begin = pieces.ends[i];
  }
  if (!removes) out.text = std::move(pieces.text);
  return out;
}

// A step that changes each piece's text.
PreTokenizer::Pieces PreTokenizer::rewrite_step(const Step& step, const Pieces& pieces) {
  Pieces out;
  size_t begin = 0;
  for (size_t i = 0; i < pieces.ends.size(); ++i) {
    const std::string_view piece = std::string_view(pieces.text).substr(begin, pieces.ends[i] - begin);
    const bool first = i < pieces.origins.size();
    const auto rewritten = [&](std::string_view text) {
      if (step.kind == Kind::byte_level) return byte_level_spelling(text);
      return step.kind == Kind::metaspace ? replace_spaces(text, step.literal) : std::string(text);
    };
    const std::string changed = rewritten(piece);
    std::string mark;
    if (step.kind == Kind::prefix_space) mark = " ";
    if (step.kind == Kind::metaspace && (step.prefix == Prefix::always || (step.prefix == Prefix::first && first)))
      mark = step.literal;
    if (changed.starts_with(mark)) mark.clear();
    if (first) {
      const size_t origin = pieces.origins[i];
      out.origins.push_back(origin > 0 ? mark.size() + rewritten(piece.substr(0, origin)).size() : 0);
    }
    out.text.append(mark).append(changed);
    out.ends.push_back(out.text.size());
    begin = pieces.ends[i];
  }
  return out;
}

}  // namespace weft
