// A plot of points, which those of a series join, and of straight lines.
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
  struct Line {  // its series' points are not joined
    double intercept, slope;
    std::size_t series;
  };
  static constexpr int kWidth = 960, kHeight = 640;  // pixels

  std::string title;
  Axis x, y;
  std::vector<Point> points;
  std::vector<Line> lines;
};

// An axis from 0 to a round number not below `most`, in 4 to 10 steps of 1, 2 or 5 times a power of ten.
Plot::Axis axis_to(const std::string& label, double most);

// Writes the file as Canvas::write does.
void write_plot(const Plot& plot, const std::string& path);

}  // namespace weft::cli
