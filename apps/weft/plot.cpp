#include "plot.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "common.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

namespace weft::cli {
namespace {

using Colour = std::array<unsigned char, 3>;
constexpr Colour kWhite = {255, 255, 255}, kBlack = {20, 20, 20}, kGrid = {225, 225, 225};
constexpr std::array<Colour, 6> kPoints = {Colour{31, 119, 180}, {214, 39, 40},  {44, 160, 44},
                                           {148, 103, 189},      {230, 120, 10}, {90, 90, 90}};
constexpr int kLeft = 110, kRight = 40, kTop = 60, kBottom = 80;  // margins, pixels
constexpr int kScale = 2, kLineHeight = 10 * kScale;              // of text
constexpr int kMarker = 5;                                        // half a point's side

struct Box {
  int left, top, width, height;
  bool touches(const Box& other) const {
    return left < other.left + other.width && other.left < left + width && top < other.top + other.height &&
           other.top < top + height;
  }
};

class Canvas {
 public:
  Canvas() : pixels_(static_cast<std::size_t>(Plot::kWidth) * Plot::kHeight * 3, 255) {}
  const unsigned char* pixels() const { return pixels_.data(); }

  void fill(const Box& box, const Colour& colour) {
    for (int y = std::max(box.top, 0); y < std::min(box.top + box.height, Plot::kHeight); ++y) {
      for (int x = std::max(box.left, 0); x < std::min(box.left + box.width, Plot::kWidth); ++x) {
        std::copy(colour.begin(), colour.end(), pixels_.begin() + (std::ptrdiff_t{y} * Plot::kWidth + x) * 3);
      }
    }
  }

  // The font gives each stroke as a rectangle of four corners, 16 bytes each, the first two floats x and y.
  void text(int left, int top, const std::string& text, const Colour& colour) {
    std::string copy = text;
    std::vector<float> corners(copy.size() * 512 + 16);
    const int strokes = stb_easy_font_print(0, 0, copy.data(), nullptr, corners.data(),
                                            static_cast<int>(corners.size() * sizeof(float)));
    for (int i = 0; i < strokes; ++i) {
      const float* first = &corners[static_cast<std::size_t>(i) * 16];
      const float* third = first + 8;  // the corner across
      const auto pixel = [](float at) { return static_cast<int>(at * kScale); };
      fill({left + pixel(first[0]), top + pixel(first[1]), pixel(third[0]) - pixel(first[0]),
            pixel(third[1]) - pixel(first[1])},
           colour);
    }
  }

 private:
  std::vector<unsigned char> pixels_;
};

// The font has ASCII only, and reads outside its tables for the rest.
std::string drawable(std::string text, std::size_t longest = 40) {
  if (text.size() > longest) text = text.substr(0, longest - 3) + "...";
  for (char& c : text) {
    if (c < 32 || c > 126) c = '?';
  }
  return text;
}

int width_of(std::string text) { return stb_easy_font_width(text.data()) * kScale; }

int place(double value, const Plot::Axis& axis, int from, int to) {
  const double share = std::clamp((value - axis.from) / (axis.to - axis.from), 0.0, 1.0);
  return from + static_cast<int>(share * (to - from));
}
int place_x(const Plot& plot, double x) { return place(x, plot.x, kLeft, Plot::kWidth - kRight); }
int place_y(const Plot& plot, double y) { return place(y, plot.y, Plot::kHeight - kBottom, kTop); }

void draw_axes(Canvas& canvas, const Plot& plot) {
  const int bottom = Plot::kHeight - kBottom, right = Plot::kWidth - kRight;
  const auto ticks = [](const Plot::Axis& axis) { return static_cast<int>((axis.to - axis.from) / axis.tick + 0.5); };
  for (int i = 0; i <= ticks(plot.x); ++i) {
    const double value = plot.x.from + i * plot.x.tick;
    const std::string label = format("%g%s", value, plot.x.unit);
    const int x = place_x(plot, value);
    canvas.fill({x, kTop, 1, bottom - kTop}, kGrid);
    canvas.fill({x, bottom, 2, 8}, kBlack);
    canvas.text(x - width_of(label) / 2, bottom + 14, label, kBlack);
  }
  for (int i = 0; i <= ticks(plot.y); ++i) {
    const double value = plot.y.from + i * plot.y.tick;
    const std::string label = format("%g%s", value, plot.y.unit);
    const int y = place_y(plot, value);
    canvas.fill({kLeft, y, right - kLeft, 1}, kGrid);
    canvas.fill({kLeft - 8, y, 8, 2}, kBlack);
    canvas.text(kLeft - 14 - width_of(label), y - 7, label, kBlack);
  }
  canvas.fill({kLeft, kTop, 2, bottom - kTop}, kBlack);
  canvas.fill({kLeft, bottom, right - kLeft, 2}, kBlack);
  const std::string title = drawable(plot.title, 70), x_label = drawable(plot.x.label);
  canvas.text(kLeft, 8, title, kBlack);
  canvas.text(right - width_of(x_label), Plot::kHeight - 30, x_label, kBlack);
  canvas.text(10, kTop - 26, drawable(plot.y.label), kBlack);
}

const Colour& colour_of(std::size_t series) { return kPoints[series % kPoints.size()]; }

// Across the plot, where they are in it.
void draw_lines(Canvas& canvas, const Plot& plot) {
  for (const Plot::Line& line : plot.lines) {
    for (int x = kLeft; x < Plot::kWidth - kRight; ++x) {
      const auto at = [&](int pixel) {
        const double share = static_cast<double>(pixel - kLeft) / (Plot::kWidth - kRight - kLeft);
        return line.intercept + line.slope * (plot.x.from + share * (plot.x.to - plot.x.from));
      };
      if (at(x) < plot.y.from || at(x) > plot.y.to) continue;
      const int here = place_y(plot, at(x)), next = place_y(plot, at(x + 1));
      canvas.fill({x, std::min(here, next), 2, std::abs(next - here) + 2}, colour_of(line.series));
    }
  }
}

// A label stands beside its point, moved down, or up from the bottom, until it covers nothing drawn before.
void draw_points(Canvas& canvas, const Plot& plot) {
  std::vector<Box> taken;
  for (const Plot::Point& point : plot.points) {
    const int x = place_x(plot, point.x), y = place_y(plot, point.y);
    taken.push_back({x - kMarker, y - kMarker, 2 * kMarker, 2 * kMarker});
  }
  for (std::size_t i = 0; i < plot.points.size(); ++i) {
    const Colour& colour = colour_of(plot.points[i].series == SIZE_MAX ? i : plot.points[i].series);
    const std::string label = drawable(plot.points[i].label);
    const Box marker = taken[i];
    Box box = {marker.left + 4 * kMarker, marker.top - kMarker, width_of(label), kLineHeight};
    if (box.left + box.width > Plot::kWidth - 5) box.left = marker.left - 2 * kMarker - box.width;
    const auto covers = [&box](const Box& other) { return box.touches(other); };
    const int step = box.top > Plot::kHeight / 2 ? -kLineHeight / 2 : kLineHeight / 2;
    while (std::any_of(taken.begin(), taken.end(), covers) && box.top > 0 && box.top < Plot::kHeight) box.top += step;
    taken.push_back(box);
    canvas.fill(marker, colour);
    canvas.text(box.left, box.top, label, colour);
  }
}

}  // namespace

void require_writable(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw UsageError(option, "\"" + path + "\" is there and is no file");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError(option, "\"" + path + "\" cannot be written: " + std::strerror(errno));
  }
}

void write_png(const Plot& plot, const std::string& path) {
  Canvas canvas;
  draw_axes(canvas, plot);
  draw_lines(canvas, plot);
  draw_points(canvas, plot);
  const std::string beside = path + format(".%ld.tmp", static_cast<long>(getpid()));
  const auto fail = [&](int number) {
    std::remove(beside.c_str());
    throw api::Failure(WEFT_IO, std::string("the plot could not be written: ") + std::strerror(number), path);
  };
  errno = 0;
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (!file) fail(errno);
  const auto append = [](void* to, void* data, int size) {
    std::fwrite(data, 1, static_cast<std::size_t>(size), static_cast<std::FILE*>(to));  // errors: ferror below
  };
  const bool made = stbi_write_png_to_func(append, file, Plot::kWidth, Plot::kHeight, 3, canvas.pixels(), 0) != 0;
  const bool whole = made && std::fflush(file) == 0 && std::ferror(file) == 0 && fsync(fileno(file)) == 0;
  const int number = errno != 0 ? errno : EIO;
  if (std::fclose(file) != 0 || !whole) fail(number);
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
}

}  // namespace weft::cli
