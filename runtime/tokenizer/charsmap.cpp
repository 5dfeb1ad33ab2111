#include "tokenizer/charsmap.h"

#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

namespace {

constexpr size_t kShortCluster = 6;  // bytes: clusters below it are looked up whole

// A unit of the array: where its children are, relative to it, or a leaf's value.
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label(uint32_t unit) { return unit & ((1u << 31) | 0xff); }
uint32_t value(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& place) : place_(place) {
  const auto word = [&](size_t at) {
    uint32_t result = 0;
    for (size_t i = 0; i < 4; ++i) result |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return result;
  };
  const size_t trie = bytes.size() < 4 ? 0 : word(0);
  if (trie == 0 || trie % 4 != 0 || trie > bytes.size() - 4)
    throw Error(Code::bad_file,
                "the normalizer's precompiled map of " + std::to_string(bytes.size()) + " bytes is cut off", place);
  units_.resize(trie / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = word(4 + i * 4);
  replacements_ = bytes.substr(4 + trie);
}

// Replacement of the shortest text of the map that this text begins with.
std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  size_t node = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) return std::nullopt;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    const size_t at = node < units_.size() ? value(units_[node]) : SIZE_MAX;
    const size_t end = at < replacements_.size() ? replacements_.find('\0', at) : std::string::npos;
    if (end == std::string::npos || end - at > kLongest)
      throw Error(Code::bad_file, "the normalizer's precompiled map has no good replacement for " + in_quotes(text),
                  place_);
    return std::string_view(replacements_).substr(at, end - at);
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    Utf8Char c = first_utf8(text);
    size_t size = c.size;
    utf8proc_int32_t state = 0;
    for (auto last = static_cast<utf8proc_int32_t>(c.code); size < text.size(); size += c.size) {
      c = first_utf8(text.substr(size));
      const auto next = static_cast<utf8proc_int32_t>(c.code);
      if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
      last = next;
    }
    std::string_view cluster = text.substr(0, size);
    text.remove_prefix(size);
    const auto whole = cluster.size() < kShortCluster ? find(cluster) : std::nullopt;
    if (whole) {
      out += *whole;
      continue;
    }
    while (!cluster.empty()) {
      const std::string_view part = cluster.substr(0, first_utf8(cluster).size);
      out += find(part).value_or(part);
      cluster.remove_prefix(part.size());
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 0xff);
  }
  return out;
}

}  // namespace weft
