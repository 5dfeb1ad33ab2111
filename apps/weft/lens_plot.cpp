// The picture of a logit lens.
#include <algorithm>
#include <cmath>

#include "canvas.h"
#include "lens.h"

namespace weft::cli {
namespace {

constexpr int kCellWidth = 124, kCellHeight = 24, kGap = 1;                      // pixels
constexpr int kLensLeft = 90, kLensTop = 96, kLensRight = 20, kLensBottom = 40;  // margins
constexpr int kBarWidth = 320, kBarHeight = 14;                                  // of the legend
constexpr std::size_t kCellCharacters = 12;                                      // characters that fit into a cell

// From a model that is sure to one that knows nothing; their lightness grows evenly.
constexpr Colour kSure = {22, 54, 112}, kMiddle = {74, 160, 168}, kUnsure = {252, 246, 206};
constexpr Colour kFrame = {214, 39, 40};

Colour colour_at(double share) {
  const bool low = share < 0.5;
  const Colour &from = low ? kSure : kMiddle, &to = low ? kMiddle : kUnsure;
  const double along = std::clamp(low ? 2 * share : 2 * share - 1, 0.0, 1.0);
  Colour colour;
  for (std::size_t i = 0; i < 3; ++i)
    colour[i] = static_cast<unsigned char>(std::lround(from[i] + along * (to[i] - from[i])));
  return colour;
}

double value_of(const LensCell& cell, LensColour colour) {
  return colour == LensColour::entropy ? cell.entropy : cell.kl;
}

// The scale's end: a whole number of nats.
double end_of_scale(const LensText& text, LensColour colour) {
  double most = 1;
  for (const auto& cells : text.cells)
    for (const LensCell& cell : cells) most = std::max(most, value_of(cell, colour));
  return std::ceil(most);
}

// A token without its quotes; a space is shown as "_".
std::string cell_text(std::string text) {
  if (text.size() > 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  std::ranges::replace(text, ' ', '_');
  return drawable(text, kCellCharacters);
}

void draw_legend(Canvas& canvas, LensColour colour, double most, const std::string& title) {
  canvas.text(kLensLeft, 8, drawable(title, 70), kBlack);
  for (int x = 0; x < kBarWidth; ++x)
    canvas.fill({kLensLeft + x, 40, 1, kBarHeight}, colour_at(static_cast<double>(x) / (kBarWidth - 1)));
  for (int i = 0; i <= 2; ++i)
    canvas.text(kLensLeft + i * kBarWidth / 2 - (i == 0 ? 0 : 10), 40 + kBarHeight + 6, format("%g", most * i / 2),
                kBlack);
  canvas.text(kLensLeft + kBarWidth + 16, 40,
              colour == LensColour::entropy ? "entropy, nats" : "KL to the last layer, nats", kBlack);
  const Box sample = {kLensLeft + kBarWidth + 16, 40 + kBarHeight + 4, 26, 16};
  canvas.fill(sample, kFrame);
  canvas.fill({sample.left + 2, sample.top + 2, sample.width - 4, sample.height - 4}, kWhite);
  canvas.text(kLensLeft + kBarWidth + 50, 40 + kBarHeight + 6, "framed: the text's next token", kBlack);
}

}  // namespace

void write_lens_plot(const api::Model& model, const LensText& text, LensColour colour, const std::string& title,
                     const std::string& path) {
  const int tokens = static_cast<int>(text.cells.size()), layers = static_cast<int>(text.cells.front().size());
  const int bottom = kLensTop + layers * kCellHeight;
  Canvas canvas(std::max(kLensLeft + tokens * kCellWidth + kLensRight, 860), bottom + kLensBottom);
  const double most = end_of_scale(text, colour);
  draw_legend(canvas, colour, most, title);
  for (int layer = 0; layer < layers; ++layer) {
    const int top = bottom - (layer + 1) * kCellHeight;
    canvas.text(10, top + 2, layer == 0 ? "embed" : std::to_string(layer), kBlack);
    for (int at = 0; at < tokens; ++at) {
      const LensCell& cell = text.cells[static_cast<std::size_t>(at)][static_cast<std::size_t>(layer)];
      const double share = value_of(cell, colour) / most;
      const Box box = {kLensLeft + at * kCellWidth, top, kCellWidth - kGap, kCellHeight - kGap};
      if (cell.next_rank == 1) canvas.fill(box, kFrame);
      const int frame = cell.next_rank == 1 ? 2 : 0;
      canvas.fill({box.left + frame, box.top + frame, box.width - 2 * frame, box.height - 2 * frame}, colour_at(share));
      canvas.text(box.left + 6, top + 2, cell_text(shown_token(model, cell.top.front().id)),
                  share < 0.45 ? kWhite : kBlack);
    }
  }
  canvas.text(10, bottom + 10, "text", kBlack);
  for (int at = 0; at < tokens; ++at)
    canvas.text(kLensLeft + at * kCellWidth + 6, bottom + 10, cell_text(text.texts[static_cast<std::size_t>(at)]),
                kBlack);
  canvas.write(path);
}

}  // namespace weft::cli
