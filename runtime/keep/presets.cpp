#include "keep/presets.h"

#include <string>
#include <unordered_set>

#include "base/regex.h"
#include "base/utf8.h"

namespace weft {

namespace {

// Scripts as in Unicode (UAX #24), with script extensions from PCRE2 10.40 on. Many scripts share the characters of
// Common and Inherited, but some of these belong to a few scripts only: U+3002 is Common, and of no use to Latin.
constexpr KeepPreset kPresets[] = {
    {"ascii", "[\\x00-\\x7F]", true, "ASCII"},
    {"latin",
     "\\p{Latin}|(?![\\p{Greek}\\p{Cyrillic}\\p{Arabic}\\p{Hebrew}\\p{Devanagari}"
     "\\p{Han}\\p{Hiragana}\\p{Katakana}\\p{Hangul}\\p{Bopomofo}])[\\p{Common}\\p{Inherited}]",
     true, "Latin letters, and the digits, punctuation, symbols, emoji and spaces of no script of their own"},
    {"greek", "\\p{Greek}", false, "Greek letters"},
    {"cyrillic", "\\p{Cyrillic}", false, "Cyrillic letters"},
    {"arabic", "\\p{Arabic}", false, "Arabic letters, digits and punctuation"},
    {"hebrew", "\\p{Hebrew}", false, "Hebrew letters"},
    {"devanagari", "\\p{Devanagari}", false, "Devanagari letters, digits and punctuation"},
    {"cjk", "[\\p{Han}\\p{Hiragana}\\p{Katakana}\\p{Hangul}\\p{Bopomofo}]", false,
     "Chinese, Japanese and Korean letters and punctuation"},
    {"digits", "[0-9]", false, "the digits 0 to 9"},
    {"punctuation", "[\\p{P}\\p{S}]", false, "punctuation and symbols"},
};

constexpr size_t kCodes = 0x110000;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// Every code point a pattern of one character matches.
std::vector<bool> matching_codes(std::string_view pattern) {
  std::string all;
  for (char32_t code = 0; code < kCodes; ++code)
    if (code < 0xD800 || code > 0xDFFF) append_utf8(all, code);  // surrogates are no characters
  std::vector<bool> codes(kCodes);
  for (const Span span : Regex("(?:" + std::string(pattern) + ")+", "keep-list preset").find_all(all)) {
    for (size_t at = span.begin; at < span.end;) {
      const Utf8Char c = first_utf8(std::string_view(all).substr(at));
      codes[c.code] = true;
      at += c.size;
    }
  }
  return codes;
}

class CharacterSet {
 public:
  explicit CharacterSet(const KeepPreset& preset)
      : spaces_belong_(preset.spaces), codes_(matching_codes(preset.characters)) {
    for (char32_t code = 0x80; code < kCodes; ++code)
      if (codes_[code]) add_parts(code);
  }

  bool has(std::string_view token) const {
    if (token.empty()) return false;
    bool belongs = false;  // something but white space was seen, or white space of the set itself
    size_t tail = 0;
    while (tail < token.size() && is_continuation(token[tail])) ++tail;
    if (tail > 0) {
      const std::string part(token.substr(0, tail));
      if (!tails_.contains(part) && !(tail == token.size() && middles_.contains(part))) return false;
      belongs = true;
      token.remove_prefix(tail);
    }
    while (!token.empty()) {
      const Utf8Char c = first_utf8(token);
      const bool inside = c.valid ? codes_[c.code] : c.incomplete && heads_.contains(std::string(token));
      if (!inside && (spaces_belong_ || !c.valid || !is_unicode_space(c.code))) return false;
      belongs = belongs || inside;
      token.remove_prefix(c.size);
    }
    return belongs;
  }

 private:
  void add_parts(char32_t code) {
    std::string bytes;
    append_utf8(bytes, code);
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      heads_.insert(bytes.substr(0, cut));
      tails_.insert(bytes.substr(cut));
      for (size_t end = cut + 1; end < bytes.size(); ++end) middles_.insert(bytes.substr(cut, end - cut));
    }
  }

  bool spaces_belong_;
  std::vector<bool> codes_;                                  // by code point
  std::unordered_set<std::string> heads_, tails_, middles_;  // parts of the encodings
};

}  // namespace

std::span<const KeepPreset> keep_presets() { return kPresets; }

std::vector<bool> preset_tokens(const KeepPreset& preset, const Tokenizer& tokenizer) {
  const CharacterSet set(preset);
  std::vector<bool> tokens(tokenizer.size());
  for (uint32_t id = 0; id < tokenizer.size(); ++id)
    tokens[id] = !tokenizer.is_control(id) && set.has(tokenizer.bytes(id));
  return tokens;
}

}  // namespace weft
