// How a camera was held: the EXIF orientation (CIPA DC-008, tag 0x0112).
#include <algorithm>
#include <string_view>

#include "image/picture.h"

namespace weft {
namespace {

// TIFF's numbers, in the byte order that it says; 0 beyond the end.
struct Tiff {
  std::span<const std::byte> bytes;
  bool little = false;

  uint32_t byte(size_t at) const { return at < bytes.size() ? std::to_integer<uint32_t>(bytes[at]) : 0; }
  uint32_t u16(size_t at) const {
    const uint32_t first = byte(at), second = byte(at + 1);
    return little ? first | second << 8 : first << 8 | second;
  }
  uint32_t u32(size_t at) const {
    const uint32_t first = u16(at), second = u16(at + 2);
    return little ? first | second << 16 : first << 16 | second;
  }
};

int orientation_of(Tiff tiff) {
  constexpr uint32_t kOrientation = 0x0112;
  tiff.little = tiff.byte(0) == 'I';
  const size_t folder = tiff.u32(4), entries = tiff.u16(folder);
  for (size_t entry = 0; entry < entries; ++entry) {
    const size_t at = folder + 2 + entry * 12;
    if (tiff.u16(at) != kOrientation) continue;
    const uint32_t value = tiff.u16(at + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  constexpr uint32_t kApp1 = 0xe1, kScan = 0xda;
  constexpr std::string_view kExif("Exif\0\0", 6);
  const Tiff all = {file};  // a JPEG's lengths are big-endian
  for (size_t at = 2; at + 4 <= file.size() && all.byte(at) == 0xff && all.byte(at + 1) != kScan;) {
    const size_t length = all.u16(at + 2), end = std::min(file.size(), at + 2 + length);
    if (length < 2) return 1;
    const auto segment = file.subspan(std::min(at + 4, end), end - std::min(at + 4, end));
    const std::string_view text(reinterpret_cast<const char*>(segment.data()), segment.size());
    if (all.byte(at + 1) == kApp1 && text.starts_with(kExif)) return orientation_of({segment.subspan(kExif.size())});
    at = end;
  }
  return 1;
}

Picture upright(Picture picture, int orientation) {
  if (orientation <= 1 || orientation > 8) return picture;
  const uint32_t w = picture.width, h = picture.height;
  const bool turned = orientation >= 5;  // rows become columns
  Picture result = {turned ? h : w, turned ? w : h, std::vector<uint8_t>(picture.pixels.size())};
  // Both are counted from the end of the old side.
  const bool from_right = orientation == 2 || orientation == 3 || orientation >= 7;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (uint32_t y = 0; y < result.height; ++y)
    for (uint32_t x = 0; x < result.width; ++x) {
      const uint32_t old_x = turned ? y : x, old_y = turned ? x : y;
      const uint8_t* from = picture.pixel(from_right ? w - 1 - old_x : old_x, from_bottom ? h - 1 - old_y : old_y);
      std::copy_n(from, 3, &result.pixels[(size_t{y} * result.width + x) * 3]);
    }
  return result;
}

}  // namespace weft
