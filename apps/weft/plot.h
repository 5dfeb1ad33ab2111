// A plot of points, and of lines through them, in a PNG file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::cli {

struct Plot {
  struct Axis {
    std::string label;
    double from, to, tick;   // every tick is labelled ...
    const char* unit = "%";  // ... with this after it
  };
  struct Point {
    std::string label;
    double x, y;
    std::size_t series = SIZE_MAX;  // those of one have a colour; SIZE_MAX: each point has its own
  };
  struct Line {
    double intercept, slope;
    std::size_t series;
  };
  static constexpr int kWidth = 960, kHeight = 640;  // pixels

  std::string title;
  Axis x, y;
  std::vector<Point> points;
  std::vector<Line> lines;
};

// Writes the file as Canvas::write does.
void write_png(const Plot& plot, const std::string& path);

}  // namespace weft::cli
