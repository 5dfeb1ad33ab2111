#include "base/utf8.h"

namespace weft {

Utf8Char first_utf8(std::string_view text) {
  Utf8Char c;
  if (text.empty()) return c;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  c.size = 1;
  if (lead < 0x80) {
    c.code = lead;
    c.valid = true;
    return c;
  }
  // The second byte's range depends on the lead byte: that is what excludes overlong forms, surrogates and code points
  // past U+10FFFF.
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    c.code = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    c.code = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    c.code = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return c;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      c.incomplete = true;
      return c;
    }
    if (byte(i) < low || byte(i) > high) return c;
    c.code = (c.code << 6) | (byte(i) & 0x3Fu);
    c.size = i + 1;
    low = 0x80;
    high = 0xBF;
  }
  c.valid = true;
  return c;
}

void append_utf8(std::string& text, char32_t code) {
  auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char c = first_utf8(text.substr(at));
    if (!c.valid) break;
    at += c.size;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t good = valid_utf8_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) return out;
    out.append(kReplacement);
    text.remove_prefix(first_utf8(text).size);
  }
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 120;
  const bool cut = text.size() > kShown;
  return "'" + replace_invalid_utf8(text.substr(0, kShown)) + (cut ? "...'" : "'");
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool is_unicode_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

}  // namespace weft
