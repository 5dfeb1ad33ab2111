// Filters with the integers of Pillow's resize, so that the network sees the pixels it was trained on: weights
// of 22 bits after the point, and a picture of bytes between the horizontal and the vertical pass.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "image/picture.h"

namespace weft {
namespace {

constexpr int kBits = 22;
constexpr double kLobes = 3;  // of Lanczos' filter

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double lanczos(double x) { return x >= -kLobes && x < kLobes ? sinc(x) * sinc(x / kLobes) : 0; }
// Keys' kernel with a = -1/2.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
double triangle(double x) { return std::max(1 - std::abs(x), 0.0); }

// The pixels that one new pixel is made of, and their weights.
struct Window {
  uint32_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Window> windows(uint32_t from, uint32_t to, ResizeFilter filter) {
  const bool sharp = filter == ResizeFilter::lanczos, smooth = filter == ResizeFilter::bicubic;
  const double scale = static_cast<double>(from) / to, stretch = std::max(scale, 1.0);
  const double reach = (sharp ? kLobes : smooth ? 2 : 1) * stretch;
  std::vector<Window> all(to);
  for (uint32_t i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const auto first = static_cast<uint32_t>(std::max(static_cast<int64_t>(center - reach + 0.5), int64_t{0}));
    const auto last = static_cast<uint32_t>(std::min(static_cast<int64_t>(center + reach + 0.5), int64_t{from}));
    std::vector<double> weights;
    double sum = 0;
    for (uint32_t x = first; x < last; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1 / stretch);
      weights.push_back(sharp ? lanczos(distance) : smooth ? cubic(distance) : triangle(distance));
      sum += weights.back();
    }
    all[i].first = first;
    for (double weight : weights) {
      if (sum != 0) weight /= sum;
      all[i].weights.push_back(static_cast<int32_t>(weight * (1 << kBits) + (weight < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

// One channel of one new pixel: pixels `step` apart.
uint8_t weighted(const Window& window, const uint8_t* pixels, size_t step) {
  int64_t sum = int64_t{1} << (kBits - 1);
  for (const int32_t weight : window.weights) {
    sum += int64_t{weight} * *pixels;
    pixels += step;
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kBits, 0, 255));
}

Picture resize_rows(const Picture& picture, uint32_t width, ResizeFilter filter) {
  Picture result = {width, picture.height, std::vector<uint8_t>(size_t{width} * picture.height * 3)};
  const std::vector<Window> all = windows(picture.width, width, filter);
  uint8_t* to = result.pixels.data();
  for (uint32_t y = 0; y < picture.height; ++y)
    for (const Window& window : all)
      for (size_t c = 0; c < 3; ++c) *to++ = weighted(window, picture.pixel(window.first, y) + c, 3);
  return result;
}

Picture resize_columns(const Picture& picture, uint32_t height, ResizeFilter filter) {
  Picture result = {picture.width, height, std::vector<uint8_t>(size_t{picture.width} * height * 3)};
  const size_t row = size_t{picture.width} * 3;
  uint8_t* to = result.pixels.data();
  for (const Window& window : windows(picture.height, height, filter))
    for (size_t i = 0; i < row; ++i) *to++ = weighted(window, picture.pixel(0, window.first) + i, row);
  return result;
}

}  // namespace

Picture resize_picture(const Picture& picture, uint32_t width, uint32_t height, ResizeFilter filter) {
  Picture result = picture.width == width ? picture : resize_rows(picture, width, filter);
  return result.height == height ? result : resize_columns(result, height, filter);
}

}  // namespace weft
