// A scatter plot in a PNG file.
#pragma once

#include <string>
#include <vector>

namespace weft::cli {

struct Plot {
  struct Axis {
    std::string label;
    double from, to, tick;  // every tick is labelled, in percent
  };
  struct Point {
    std::string label;
    double x, y;
  };
  static constexpr int kWidth = 960, kHeight = 640;  // pixels

  std::string title;
  Axis x, y;
  std::vector<Point> points;
};

// Throws UsageError, naming the option, where no file can be written: better before a long run than after it.
void require_writable(const std::string& option, const std::string& path);

// A reader sees the file that was there before or the whole new one. Throws api::Failure.
void write_png(const Plot& plot, const std::string& path);

}  // namespace weft::cli
