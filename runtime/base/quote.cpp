#include "base/quote.h"

#include "base/utf8.h"

namespace weft {

std::string printable(std::string_view text) {
  constexpr size_t longest = 100;
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const Utf8Char c = first_utf8(text);
    const bool plain = c.valid && c.code >= 0x20 && c.code != 0x7f;
    const size_t needed = plain ? c.size : 4;
    if (result.size() + needed > longest) return result + "...";
    if (plain) {
      result += text.substr(0, c.size);
      text.remove_prefix(c.size);
    } else {
      const auto byte = static_cast<unsigned char>(text[0]);
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace weft
