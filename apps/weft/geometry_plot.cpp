// The picture of a vocabulary table.
#include <algorithm>
#include <cmath>

#include "canvas.h"
#include "geometry.h"
#include "plot.h"

namespace weft::cli {
namespace {

constexpr int kPanelWidth = 640, kPanelHeight = 240, kPanelLeft = 100, kPanelTop = 100, kPanelGap = 110;  // pixels
constexpr std::size_t kBars = 64;                                                                         // of norms
constexpr Colour kBarColour = {31, 119, 180}, kRule = {225, 225, 225};

// Bars on an axis from 0 to a round number that is not below `most`, with rules at its ticks.
void draw_panel(Canvas& canvas, int number, const std::string& title, const std::vector<double>& bars, double most,
                const std::string& last) {
  const int top = kPanelTop + number * (kPanelHeight + kPanelGap), bottom = top + kPanelHeight;
  canvas.text(kPanelLeft, top - 30, drawable(title, 70), kBlack);
  const Plot::Axis axis = axis_to("", most);
  const int ticks = static_cast<int>(std::lround(axis.to / axis.tick));
  for (int i = 0; i <= ticks; ++i) {
    const int y = bottom - i * kPanelHeight / ticks;
    const std::string label = format("%.3g", axis.tick * i);
    canvas.fill({kPanelLeft, y, kPanelWidth, 1}, kRule);
    canvas.text(kPanelLeft - 12 - width_of(label), y - 7, label, kBlack);
  }
  const int count = static_cast<int>(bars.size());
  for (int i = 0; i < count; ++i) {
    const int left = kPanelWidth * i / count, right = kPanelWidth * (i + 1) / count;
    const double share = std::clamp(bars[static_cast<std::size_t>(i)] / axis.to, 0.0, 1.0);
    const int height = static_cast<int>(std::lround(share * kPanelHeight));
    canvas.fill({kPanelLeft + left, bottom - height, std::max(right - left - 1, 1), height}, kBarColour);
  }
  canvas.fill({kPanelLeft - 2, top, 2, kPanelHeight + 2}, kBlack);
  canvas.fill({kPanelLeft, bottom, kPanelWidth, 2}, kBlack);
  canvas.text(kPanelLeft, bottom + 10, "0", kBlack);
  canvas.text(kPanelLeft + kPanelWidth - width_of(last), bottom + 10, last, kBlack);
}

std::vector<double> summed(const std::vector<double>& shares) {
  std::vector<double> sums;
  double sum = 0;
  for (const double share : shares) sums.push_back(sum += share);
  return sums;
}

}  // namespace

void write_geometry_plot(const TableFigures& table, const StateFigures* states, const std::string& title,
                         const std::string& path) {
  Canvas canvas(kPanelLeft + kPanelWidth + 40, kPanelTop + (states ? 3 : 2) * (kPanelHeight + kPanelGap) - 50);
  canvas.text(kPanelLeft, 16, drawable(title, 70), kBlack);
  const std::vector<double> norms = bars_of(table.norms, kBars);
  const double most = *std::max_element(norms.begin(), norms.end());
  draw_panel(canvas, 0, "mean norm of rows, by id", norms, most > 0 ? most : 1, std::to_string(table.norms.size() - 1));
  const std::string last = std::to_string(table.spectrum.size() - 1);
  draw_panel(canvas, 1, "variance of the rows in so many principal directions", summed(table.spectrum), 1, last);
  if (states) draw_panel(canvas, 2, "energy of the states in so many coordinates", summed(states->energy), 1, last);
  canvas.write(path);
}

}  // namespace weft::cli
