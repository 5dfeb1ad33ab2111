#include "image/tiles.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft {
namespace {

constexpr uint32_t kLongest = 4096;  // pixels of a side, whatever the settings say

struct Size {
  uint32_t width, height;
};

uint32_t whole(double value) { return static_cast<uint32_t>(std::max(value, 1.0)); }

// The sizes are those of Transformers' Idefics3ImageProcessor, which computes them with doubles and cuts them off.
Size first_size(const Picture& picture, uint32_t longest) {
  const double aspect = static_cast<double>(picture.width) / picture.height;
  Size size = {longest, longest};
  if (picture.width >= picture.height) {
    size.height = static_cast<uint32_t>(longest / aspect);
    size.height += size.height % 2;
  } else {
    size.width = static_cast<uint32_t>(longest * aspect);
    size.width += size.width % 2;
  }
  size = {std::max(size.width, 1u), std::max(size.height, 1u)};
  const double second = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height && size.width > kLongest) return {kLongest, whole(kLongest / second)};
  if (size.height > kLongest) return {whole(kLongest * second), kLongest};
  return size;
}

uint32_t next_multiple(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }

// The next larger size with whole tiles.
Size tiled_size(const Picture& picture, uint32_t tile) {
  const double aspect = static_cast<double>(picture.width) / picture.height;
  if (picture.width >= picture.height) {
    const uint32_t width = next_multiple(picture.width, tile);
    return {width, next_multiple(whole(width / aspect), tile)};
  }
  const uint32_t height = next_multiple(picture.height, tile);
  return {next_multiple(whole(height * aspect), tile), height};
}

Picture crop(const Picture& picture, uint32_t left, uint32_t top, uint32_t side) {
  Picture part = {side, side, {}};
  for (uint32_t y = 0; y < side; ++y) {
    const uint8_t* row = picture.pixel(left, top + y);
    part.pixels.insert(part.pixels.end(), row, row + size_t{side} * 3);
  }
  return part;
}

}  // namespace

// As smart_resize of Transformers' Qwen2VLImageProcessor, whose round() takes the even one of two neighbours.
std::pair<uint32_t, uint32_t> stepped_size(uint32_t width, uint32_t height, const PictureSettings& settings) {
  if (std::max(width, height) > 200 * uint64_t{std::min(width, height)})
    throw Error(Code::unsupported,
                "a picture of " + std::to_string(width) + " x " + std::to_string(height) +
                    " pixels: one side is more than 200 times as long as the other",
                "picture");
  const double step = settings.step, pixels = static_cast<double>(width) * height;
  const auto most = static_cast<double>(settings.most_pixels), least = static_cast<double>(settings.least_pixels);
  double w = std::nearbyint(width / step), h = std::nearbyint(height / step);
  if (const double all = w * h * step * step; all > most) {
    const double shrink = std::sqrt(pixels / most);
    w = std::max(1.0, std::floor(width / shrink / step));
    h = std::max(1.0, std::floor(height / shrink / step));
  } else if (all < least) {
    const double grow = std::sqrt(least / pixels);
    w = std::ceil(width * grow / step);
    h = std::ceil(height * grow / step);
    if (w * h * step * step > most) {  // least and most are close to each other
      w = std::max(1.0, std::floor(width * grow / step));
      h = std::max(1.0, std::floor(height * grow / step));
    }
  }
  return {static_cast<uint32_t>(w * step), static_cast<uint32_t>(h * step)};
}

Tiles split_picture(const Picture& picture, const PictureSettings& settings) {
  const uint32_t tile = settings.tile;
  if (settings.square) return {0, 0, {resize_picture(picture, tile, tile, ResizeFilter::bilinear)}};
  if (settings.step > 0) {
    const auto [width, height] = stepped_size(picture.width, picture.height, settings);
    return {0, 0, {resize_picture(picture, width, height, ResizeFilter::bicubic)}};
  }
  const Size first = first_size(picture, settings.longest_edge);
  Picture sized = resize_picture(picture, first.width, first.height);
  Tiles tiles;
  if (settings.split) {
    const Size size = tiled_size(sized, tile);
    sized = resize_picture(sized, size.width, size.height);
    if (size.width > tile || size.height > tile) tiles.rows = size.height / tile, tiles.columns = size.width / tile;
  }
  for (uint32_t row = 0; row < tiles.rows; ++row)
    for (uint32_t column = 0; column < tiles.columns; ++column)
      tiles.pictures.push_back(crop(sized, column * tile, row * tile, tile));
  tiles.pictures.push_back(resize_picture(sized, tile, tile));
  return tiles;
}

std::vector<float> patches_of(const Picture& tile, const PictureSettings& settings, uint32_t patch) {
  std::vector<float> values;
  values.reserve(tile.pixels.size());
  for (uint32_t top = 0; top + patch <= tile.height; top += patch)
    for (uint32_t left = 0; left + patch <= tile.width; left += patch)
      for (size_t c = 0; c < 3; ++c)
        for (uint32_t y = top; y < top + patch; ++y)
          for (uint32_t x = left; x < left + patch; ++x) {
            const float scaled = static_cast<float>(tile.pixel(x, y)[c] * settings.scale);
            values.push_back((scaled - settings.mean[c]) / settings.deviation[c]);
          }
  return values;
}

std::string picture_text(const Tiles& tiles, uint32_t rows_per_tile) {
  constexpr const char *kAround = "<fake_token_around_image>", *kRow = "<image>";
  std::string rows, text;
  for (uint32_t i = 0; i < rows_per_tile; ++i) rows += kRow;
  for (uint32_t row = 1; row <= tiles.rows; ++row) {
    for (uint32_t column = 1; column <= tiles.columns; ++column)
      text += kAround + ("<row_" + std::to_string(row) + "_col_" + std::to_string(column) + ">") + rows;
    text += "\n";
  }
  if (tiles.rows > 0) text += "\n";
  return text + kAround + "<global-img>" + rows + kAround;
}

}  // namespace weft
