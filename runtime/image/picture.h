// Pictures of PNG and JPEG files, as a person sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft {

struct Picture {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // (height, width, 3): red, green, blue

  const uint8_t* pixel(uint32_t x, uint32_t y) const { return &pixels[(size_t{y} * width + x) * 3]; }
};

// Limits for a file. Decoding takes about 11 bytes a pixel, and 6 more for a progressive JPEG.
struct PictureLimits {
  uint64_t bytes = uint64_t{64} << 20;
  uint32_t side = 16384;
  uint64_t pixels = uint64_t{1} << 25;
};

// Decodes a PNG or JPEG file. Transparent pixels are drawn on white. A JPEG is turned as its EXIF orientation says.
// place: the file's name, which begins every error. Throws Error(unsupported) for another format and for a picture
// above the limits, Error(bad_file) naming what is wrong with the file.
Picture decode_picture(std::span<const std::byte> file, const std::string& place, const PictureLimits& limits = {});

// The EXIF orientation of a JPEG file, 1 to 8; 1 if it has none that can be read.
int exif_orientation(std::span<const std::byte> file);

// The picture turned and mirrored so that one of that orientation (1 to 8) stands upright.
Picture upright(Picture picture, int orientation);

enum class ResizeFilter {
  lanczos,  // with three lobes
  bilinear,
  bicubic,
};

// The picture in another size: the numbers of Pillow's resize. Both sizes are at least 1.
Picture resize_picture(const Picture& picture, uint32_t width, uint32_t height,
                       ResizeFilter filter = ResizeFilter::lanczos);

}  // namespace weft
