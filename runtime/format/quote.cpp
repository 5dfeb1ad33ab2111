#include "format/quote.h"

#include <cstdint>

namespace weft {
namespace {

// Length of the well-formed UTF-8 sequence text starts with (RFC 3629, table in section 4), or 0.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool too_large = lead == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t longest = 100;
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const uint8_t lead = static_cast<uint8_t>(text[0]);
    const bool plain = length > 0 && lead >= 0x20 && lead != 0x7f;
    const size_t needed = plain ? length : 4;
    if (result.size() + needed > longest) return result + "...";
    if (plain) {
      result += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      result += {'\\', 'x', digits[lead >> 4], digits[lead & 15]};
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace weft
