// A saved session as an input of fuzz_session: its header, a zero byte, and the rest without the checksum.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "model/fingerprint.h"

namespace weft::test {

inline constexpr std::string_view kSessionMagic = "weft-kv1";

inline std::string word(uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); }

// A file with a right magic, length and checksum. rest is filled up with zeros to `least` bytes.
inline std::string seal_session(std::string_view header, std::string_view rest, size_t least) {
  std::string text(header), tail(rest);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  tail.resize(std::max((tail.size() + 7) / 8 * 8, least));
  std::string file = std::string(kSessionMagic) + word(text.size()) + text + tail;
  Fingerprint sum;
  sum.add(std::as_bytes(std::span(file)));
  return file + word(sum.value());
}

// The header and the rest of a file that Weft saved.
inline std::pair<std::string, std::string> unseal_session(const std::string& file) {
  uint64_t header = 0;
  std::memcpy(&header, &file[kSessionMagic.size()], sizeof header);
  const size_t begin = kSessionMagic.size() + sizeof header;
  return {file.substr(begin, header), file.substr(begin + header, file.size() - begin - header - 8)};
}

}  // namespace weft::test
