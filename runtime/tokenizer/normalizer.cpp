#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_level.h"

namespace weft {

namespace {

constexpr int kMaxNesting = 16;
// A hostile chain of replacements may double the text at every step.
constexpr size_t kMaxGrowth = 64, kMaxGrowthBase = 4096, kMaxInsert = 64;
const std::string kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// Applies change to each run of well-formed UTF-8 and keeps the bytes between as they are.
template <typename Change>
std::string map_valid(std::string_view text, Change change) {
  std::string out;
  while (!text.empty()) {
    const size_t good = valid_utf8_prefix(text);
    if (good > 0) out += change(text.substr(0, good));
    text.remove_prefix(good);
    const size_t bad = first_utf8(text).size;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return out;
}

std::string unicode_form(std::string_view text, int options) {
  if (is_ascii(text)) return std::string(text);
  return map_valid(text, [&](std::string_view run) {
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()), static_cast<utf8proc_ssize_t>(run.size()),
                     &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
    const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
    if (size < 0) throw Error(Code::out_of_memory, utf8proc_errmsg(size), "Unicode normalization");
    return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  });
}

// Each character c as change(c, out) writes it.
template <typename Change>
std::string map_characters(std::string_view text, Change change) {
  return map_valid(text, [&](std::string_view run) {
    std::string out;
    while (!run.empty()) {
      const Utf8Char c = first_utf8(run);
      change(c.code, out);
      run.remove_prefix(c.size);
    }
    return out;
  });
}

std::string lowercase(std::string_view text) {
  return map_characters(text, [](char32_t code, std::string& out) {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    if (code == 0x130) append_utf8(out, 0x307);  // the one character whose lower case is two (SpecialCasing.txt)
  });
}

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

// The three things BERT's tokenizer does to a text's characters (google-research/bert, tokenization.py,
// BasicTokenizer). White space becomes plain spaces; other control characters and U+FFFD go.
std::string clean(std::string_view text) {
  return map_characters(text, [](char32_t code, std::string& out) {
    const utf8proc_category_t kind = category(code);
    const bool other = kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
    if (code == '\t' || code == '\n' || code == '\r')
      out += ' ';
    else if (code == 0xFFFD || other)
      return;
    else if (is_unicode_space(code))
      out += ' ';
    else
      append_utf8(out, code);
  });
}

bool is_ideograph(char32_t code) {
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [low, high] : kRanges)
    if (code >= low && code <= high) return true;
  return false;
}

std::string space_ideographs(std::string_view text) {
  return map_characters(text, [](char32_t code, std::string& out) {
    const char* space = is_ideograph(code) ? " " : "";
    out += space;
    append_utf8(out, code);
    out += space;
  });
}

// Without combining marks: all of them, or only those that take no space.
std::string strip_marks(std::string_view text, bool all) {
  return map_characters(text, [&](char32_t code, std::string& out) {
    const utf8proc_category_t kind = category(code);
    const bool other = kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
    if (kind != UTF8PROC_CATEGORY_MN && !(all && other)) append_utf8(out, code);
  });
}

// SentencePiece's rules for machine translation ("nmt"): control characters go, some others become spaces.
std::string nmt(std::string_view text) {
  return map_characters(text, [](char32_t c, std::string& out) {
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      return;
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == 0xFFFD;
    append_utf8(out, space ? U' ' : c);
  });
}

std::vector<Span> find_all(std::string_view text, const std::string& literal) {
  std::vector<Span> spans;
  for (size_t at = 0; !literal.empty() && (at = text.find(literal, at)) != std::string_view::npos; at += literal.size())
    spans.push_back({at, at + literal.size()});
  return spans;
}

// A text that a Prepend or Replace puts in.
std::string inserted(const JsonObject& json, const char* key) {
  std::string text = json.text(key, "");
  if (text.size() > kMaxInsert) {
    throw Error(
        Code::unsupported,
        "a normalizer inserts " + std::to_string(text.size()) + " bytes, more than " + std::to_string(kMaxInsert),
        json.place());
  }
  return text;
}

size_t characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_utf8(text).size);
  return count;
}

std::string_view strip_left(std::string_view text) {
  while (true) {
    const Utf8Char c = first_utf8(text);
    if (!c.valid || !is_unicode_space(c.code)) return text;
    text.remove_prefix(c.size);
  }
}

std::string_view strip_right(std::string_view text) {
  size_t keep = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = first_utf8(text.substr(at));
    at += c.size;
    if (!c.valid || !is_unicode_space(c.code)) keep = at;
  }
  return text.substr(0, keep);
}

}  // namespace

Normalizer Normalizer::sentencepiece(bool prefix) {
  Normalizer normalizer;
  if (prefix) normalizer.steps_.push_back({Kind::prepend, {}, kSpaceMark, {}, {}});
  normalizer.steps_.push_back({Kind::replace, " ", kSpaceMark, {}, {}});
  return normalizer;
}

Normalizer Normalizer::nfc() {
  Normalizer normalizer;
  normalizer.steps_.push_back({Kind::nfc, {}, {}, {}, {}});
  return normalizer;
}

Normalizer Normalizer::sentencepiece(bool prefix, bool collapse, std::optional<Charsmap> map) {
  Normalizer normalizer;
  if (map) {
    normalizer.steps_.push_back({Kind::charsmap, {}, {}, {}, std::make_shared<const Charsmap>(std::move(*map))});
  }
  if (collapse) {
    normalizer.steps_.push_back({Kind::strip_left, {}, {}, {}, {}});
    normalizer.steps_.push_back({Kind::strip_right, {}, {}, {}, {}});
    normalizer.steps_.push_back({Kind::replace, {}, " ", Regex(" {2,}", "SentencePiece"), {}});
  }
  const Normalizer marks = sentencepiece(prefix);
  normalizer.steps_.insert(normalizer.steps_.end(), marks.steps_.begin(), marks.steps_.end());
  return normalizer;
}

Normalizer Normalizer::bert_uncased() {
  Normalizer normalizer;
  for (const Kind kind : {Kind::clean, Kind::space_ideographs, Kind::nfd, Kind::strip_nonspacing, Kind::lowercase})
    normalizer.steps_.push_back({kind, {}, {}, {}, {}});
  return normalizer;
}

Normalizer Normalizer::from_json(const JsonObject& json) {
  Normalizer normalizer;
  normalizer.add_json(json, 0);
  return normalizer;
}

void Normalizer::add_json(const JsonObject& json, int depth) {
  if (depth > kMaxNesting) throw Error(Code::bad_file, "the normalizers nest too deeply", json.place());
  const std::string type = json.text("type", "");
  if (type == "Sequence") {
    for (const auto& item : json.array("normalizers")) add_json(JsonObject(item, json.place()), depth + 1);
  } else if (type == "Prepend") {
    steps_.push_back({Kind::prepend, {}, inserted(json, "prepend"), {}, {}});
  } else if (type == "Replace") {
    add_replace(json);
  } else if (type == "Strip") {
    if (json.flag("strip_left", true)) steps_.push_back({Kind::strip_left, {}, {}, {}, {}});
    if (json.flag("strip_right", true)) steps_.push_back({Kind::strip_right, {}, {}, {}, {}});
  } else if (type == "Lowercase") {
    steps_.push_back({Kind::lowercase, {}, {}, {}, {}});
  } else if (type == "BertNormalizer") {
    add_bert(json);
  } else if (type == "Nmt") {
    steps_.push_back({Kind::nmt, {}, {}, {}, {}});
  } else if (type == "ByteLevel") {
    steps_.push_back({Kind::byte_level, {}, {}, {}, {}});
  } else if (type == "StripAccents") {
    steps_.push_back({Kind::strip_accents, {}, {}, {}, {}});
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    const Kind kind = type == "NFC" ? Kind::nfc : type == "NFD" ? Kind::nfd : type == "NFKC" ? Kind::nfkc : Kind::nfkd;
    steps_.push_back({kind, {}, {}, {}, {}});
  } else if (type == "Precompiled") {
    add_charsmap(json);
  } else {
    throw Error(Code::unsupported, "not supported yet: the tokenizer's normalizer " + in_quotes(type), json.place());
  }
}

void Normalizer::add_charsmap(const JsonObject& json) {
  const auto bytes = from_base64(json.text("precompiled_charsmap", ""));
  if (!bytes) throw Error(Code::bad_file, "a Precompiled normalizer's map is not base64", json.place());
  if (bytes->empty()) return;  // SentencePiece's "identity"
  steps_.push_back({Kind::charsmap, {}, {}, {}, std::make_shared<const Charsmap>(*bytes, json.place())});
}

void Normalizer::add_bert(const JsonObject& json) {
  const auto add = [&](Kind kind) { steps_.push_back({kind, {}, {}, {}, {}}); };
  const bool lower = json.flag("lowercase", true);
  if (json.flag("clean_text", true)) add(Kind::clean);
  if (json.flag("handle_chinese_chars", true)) add(Kind::space_ideographs);
  if (json.flag("strip_accents", lower)) {  // null: as lowercase
    add(Kind::nfd);
    add(Kind::strip_nonspacing);
  }
  if (lower) add(Kind::lowercase);
}

void Normalizer::add_replace(const JsonObject& json) {
  const JsonObject pattern = json.object("pattern");
  const std::string to = inserted(json, "content");
  if (const auto from = pattern.find_text("String")) {
    steps_.push_back({Kind::replace, *from, to, {}, {}});
  } else if (const auto regex = pattern.find_text("Regex")) {
    steps_.push_back({Kind::replace, {}, to, Regex(*regex, json.place()), {}});
  } else {
    throw Error(Code::bad_file, "a Replace normalizer's pattern is neither a String nor a Regex", json.place());
  }
}

bool Normalizer::has_byte_level() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.kind == Kind::byte_level; });
}

// Result of a step that maps characters or Unicode forms, for a text.
std::string Normalizer::change(const Step& step, std::string_view text) {
  switch (step.kind) {
    case Kind::lowercase:
      return lowercase(text);
    case Kind::clean:
      return clean(text);
    case Kind::space_ideographs:
      return space_ideographs(text);
    case Kind::strip_nonspacing:
      return strip_marks(text, false);
    case Kind::strip_accents:
      return strip_marks(text, true);
    case Kind::nmt:
      return nmt(text);
    case Kind::byte_level:
      return byte_level_spelling(text);
    case Kind::nfc:
      return unicode_form(text, UTF8PROC_COMPOSE);
    case Kind::nfd:
      return unicode_form(text, UTF8PROC_DECOMPOSE);
    case Kind::nfkc:
      return unicode_form(text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case Kind::nfkd:
      return unicode_form(text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    case Kind::charsmap:
      return map_valid(text, [&](std::string_view run) { return step.map->apply(run); });
    default:
      return std::string(text);
  }
}

// Replaces every match. The replacement stands for the same characters as the match's last byte.
Normalizer::Text Normalizer::replace(const Step& step, const Text& in) {
  Text out;
  size_t at = 0;
  const auto copy_to = [&](size_t end) {
    if (at < in.origin) out.origin = out.text.size() + std::min(in.origin, end) - at;
    out.text.append(in.text, at, end - at);
    if (!in.plain.empty()) out.plain.append(in.plain, at, end - at);
  };
  for (const Span& span : step.regex ? step.regex->find_all(in.text) : find_all(in.text, step.from)) {
    copy_to(span.begin);
    out.text += step.to;
    if (!in.plain.empty()) {
      const auto begin = in.plain.begin() + static_cast<std::ptrdiff_t>(span.begin);
      out.plain.append(step.to.size(),
                       *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(span.end - span.begin)));
    }
    at = span.end;
    if (at <= in.origin) out.origin = out.text.size();
  }
  copy_to(in.text.size());
  return out;
}

// The marks of a changed text: runs of equal marks are changed alone. If they do not add up to the changed text,
// because characters of several runs became one, all of it is plain.
std::string Normalizer::change_plain(const Step& step, const Text& in, const std::string& changed) {
  std::string plain, together;
  for (size_t at = 0; at < in.plain.size();) {
    const size_t end = std::min(in.plain.find_first_not_of(in.plain[at], at), in.plain.size());
    together += change(step, std::string_view(in.text).substr(at, end - at));
    plain.resize(together.size(), in.plain[at]);
    at = end;
  }
  return together == changed ? plain : std::string(in.plain.empty() ? 0 : changed.size(), '\1');
}

Normalizer::Text Normalizer::apply(std::string_view input, std::string_view plain) const {
  Text now = {std::string(input), first_utf8(input).size, std::string(plain)};
  for (const Step& step : steps_) {
    if (step.kind == Kind::prepend) {
      if (!now.text.empty()) now.text.insert(0, step.to);
      if (!now.plain.empty()) now.plain.insert(0, step.to.size(), now.plain[0]);
      if (now.origin > 0) now.origin += step.to.size();
    } else if (step.kind == Kind::replace) {
      now = replace(step, now);
    } else if (step.kind == Kind::strip_left) {
      const size_t removed = now.text.size() - strip_left(now.text).size();
      now.text.erase(0, removed);
      if (!now.plain.empty()) now.plain.erase(0, removed);
      now.origin -= std::min(now.origin, removed);
    } else if (step.kind == Kind::strip_right) {
      now.text.resize(strip_right(now.text).size());
      if (!now.plain.empty()) now.plain.resize(now.text.size());
      now.origin = std::min(now.origin, now.text.size());
    } else {
      size_t front = characters(change(step, std::string_view(now.text).substr(0, now.origin)));
      std::string changed = change(step, now.text);
      std::string plain_now = change_plain(step, now, changed);
      now = {std::move(changed), 0, std::move(plain_now)};
      for (; front > 0 && now.origin < now.text.size(); --front)
        now.origin += first_utf8(std::string_view(now.text).substr(now.origin)).size;
    }
    if (now.text.size() > kMaxGrowthBase + kMaxGrowth * input.size()) {
      throw Error(Code::bad_file, "the tokenizer's normalizer blows a text of " + std::to_string(input.size()) +
                                      " bytes up to " + std::to_string(now.text.size()));
    }
  }
  return now;
}

}  // namespace weft
