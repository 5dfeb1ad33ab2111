#include "tokenizer/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace weft {

namespace {

constexpr size_t kCodes = 324;  // every code point of the alphabet is below this

struct Alphabet {
  std::array<char32_t, 256> codes{};  // by byte
  std::array<int, kCodes> bytes{};    // by code point; -1: not in the alphabet
};

// Latin-1's printable characters stand for their own byte; the code points from 256 on stand for the other bytes in
// order.
Alphabet make_alphabet() {
  Alphabet made;
  made.bytes.fill(-1);
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    made.codes[b] = printable ? b : next++;
    made.bytes[made.codes[b]] = static_cast<int>(b);
  }
  return made;
}

const Alphabet& alphabet() {
  static const Alphabet made = make_alphabet();
  return made;
}

}  // namespace

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, alphabet().codes[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  std::string out;
  while (!spelling.empty()) {
    const Utf8Char c = first_utf8(spelling);
    if (!c.valid || c.code >= kCodes || alphabet().bytes[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(alphabet().bytes[c.code]));
    spelling.remove_prefix(c.size);
  }
  return out;
}

}  // namespace weft
