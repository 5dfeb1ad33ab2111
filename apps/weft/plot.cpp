#include "plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "canvas.h"
#include "common.h"

namespace weft::cli {
namespace {

constexpr Colour kGrid = {225, 225, 225};
constexpr std::array<Colour, 6> kPoints = {Colour{31, 119, 180}, {214, 39, 40},  {44, 160, 44},
                                           {148, 103, 189},      {230, 120, 10}, {90, 90, 90}};
constexpr int kLeft = 110, kRight = 40, kTop = 60, kBottom = 80;  // margins, pixels
constexpr int kMarker = 5;                                        // half a point's side

double place(double value, const Plot::Axis& axis, int from, int to) {
  const double share = std::clamp((value - axis.from) / (axis.to - axis.from), 0.0, 1.0);
  return from + share * (to - from);
}
double place_x(const Plot& plot, double x) { return place(x, plot.x, kLeft, Plot::kWidth - kRight); }
double place_y(const Plot& plot, double y) { return place(y, plot.y, Plot::kHeight - kBottom, kTop); }

void draw_axes(Canvas& canvas, const Plot& plot) {
  const int bottom = Plot::kHeight - kBottom, right = Plot::kWidth - kRight;
  const auto ticks = [](const Plot::Axis& axis) { return static_cast<int>((axis.to - axis.from) / axis.tick + 0.5); };
  for (int i = 0; i <= ticks(plot.x); ++i) {
    const double value = plot.x.from + i * plot.x.tick;
    const std::string label = format("%g%s", value, plot.x.unit);
    const int x = static_cast<int>(place_x(plot, value));
    canvas.fill({x, kTop, 1, bottom - kTop}, kGrid);
    canvas.fill({x, bottom, 2, 8}, kBlack);
    canvas.text(x - width_of(label) / 2, bottom + 14, label, kBlack);
  }
  for (int i = 0; i <= ticks(plot.y); ++i) {
    const double value = plot.y.from + i * plot.y.tick;
    const std::string label = format("%g%s", value, plot.y.unit);
    const int y = static_cast<int>(place_y(plot, value));
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

// Draws the part of each line that is inside the plot.
void draw_lines(Canvas& canvas, const Plot& plot) {
  for (const Plot::Line& line : plot.lines) {
    double from = plot.x.from, to = plot.x.to;
    if (line.slope != 0) {
      const double low = (plot.y.from - line.intercept) / line.slope, high = (plot.y.to - line.intercept) / line.slope;
      from = std::max(from, std::min(low, high));
      to = std::min(to, std::max(low, high));
    }
    if (from >= to) continue;
    const auto y = [&](double x) { return place_y(plot, line.intercept + line.slope * x); };
    canvas.line(place_x(plot, from), y(from), place_x(plot, to), y(to), colour_of(line.series));
  }
}

// Joins each point with the one before it, if they are of the same series.
void join_points(Canvas& canvas, const Plot& plot) {
  for (std::size_t i = 1; i < plot.points.size(); ++i) {
    const Plot::Point &before = plot.points[i - 1], &point = plot.points[i];
    const auto fits = [&](const Plot::Line& line) { return line.series == point.series; };
    if (point.series == SIZE_MAX || before.series != point.series || std::ranges::any_of(plot.lines, fits)) continue;
    canvas.line(place_x(plot, before.x), place_y(plot, before.y), place_x(plot, point.x), place_y(plot, point.y),
                colour_of(point.series));
  }
}

// A label stands beside its point, moved down, or up from the bottom, until it covers nothing drawn before.
void draw_points(Canvas& canvas, const Plot& plot) {
  std::vector<Box> taken;
  const double radius = plot.points.size() > 60 ? 2 : kMarker;
  for (const Plot::Point& point : plot.points) {
    const int x = static_cast<int>(place_x(plot, point.x)), y = static_cast<int>(place_y(plot, point.y));
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
    canvas.dot(place_x(plot, plot.points[i].x), place_y(plot, plot.points[i].y), radius, colour);
    canvas.text(box.left, box.top, label, colour);
  }
}

}  // namespace

Plot::Axis axis_to(const std::string& label, double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  double tick = std::pow(10, std::floor(std::log10(most)) - 1);
  for (const double factor : {2.0, 2.5, 2.0, 2.0}) {
    if (most / tick <= 10) break;
    tick *= factor;
  }
  return {label, 0, std::ceil(most / tick) * tick, tick, ""};
}

void write_plot(const Plot& plot, const std::string& path) {
  Canvas canvas(Plot::kWidth, Plot::kHeight);
  draw_axes(canvas, plot);
  draw_lines(canvas, plot);
  join_points(canvas, plot);
  draw_points(canvas, plot);
  canvas.write(path);
}

}  // namespace weft::cli
