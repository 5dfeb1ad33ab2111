#include "image/jpeg.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace weft {
namespace {

// Markers of ITU-T T.81, table B.1.
constexpr uint32_t kTables = 0xc4, kRestart = 0xd0, kEnd = 0xd9, kApp0 = 0xe0, kApp14 = 0xee, kApp15 = 0xef,
                   kComment = 0xfe;

uint32_t byte_at(std::span<const std::byte> bytes, size_t at) {
  return at < bytes.size() ? std::to_integer<uint32_t>(bytes[at]) : 0;
}

uint32_t length_at(std::span<const std::byte> bytes, size_t at) {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

bool is_left_out(uint32_t marker) {
  return marker == kComment || (marker > kApp0 && marker <= kApp15 && marker != kApp14);
}

// The Huffman tables of a segment whose length is at `at`: a class and a number, 16 counts of codes, and their values.
void check_tables(std::span<const std::byte> bytes, size_t at, const std::string& place) {
  constexpr uint32_t kMostCodes = 256;
  const size_t end = at + length_at(bytes, at);
  for (size_t table = at + 2; table < end;) {
    uint32_t codes = 0;
    for (size_t i = 1; i <= 16; ++i) codes += byte_at(bytes, table + i);
    if (codes > kMostCodes)
      throw Error(Code::bad_file,
                  "a Huffman table has " + std::to_string(codes) + " codes, it may have " + std::to_string(kMostCodes),
                  place);
    table += 17 + codes;
  }
}

}  // namespace

std::vector<std::byte> checked_jpeg(std::span<const std::byte> file, const std::string& place) {
  std::vector<std::byte> kept;
  kept.reserve(file.size());
  for (size_t at = 0; at < file.size();) {
    const uint32_t marker = byte_at(file, at) == 0xff ? byte_at(file, at + 1) : 0;
    // Bytes of a scan, filling bytes, and markers without a segment.
    const bool segment = marker >= 0xc0 && marker < 0xff && (marker < kRestart || marker > kEnd);
    const size_t length = segment ? 2 + length_at(file, at + 2) : 1, end = std::min(file.size(), at + length);
    if (!segment || !is_left_out(marker))
      kept.insert(kept.end(), file.begin() + static_cast<ptrdiff_t>(at), file.begin() + static_cast<ptrdiff_t>(end));
    at = end;
  }
  // However a decoder goes through the file, a table's segment begins with this marker; in what is kept nothing else
  // does.
  for (size_t at = 0; at + 1 < kept.size(); ++at)
    if (byte_at(kept, at) == 0xff && byte_at(kept, at + 1) == kTables) check_tables(kept, at + 2, place);
  return kept;
}

}  // namespace weft
