#include "format/q4_block.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace weft {
namespace {

constexpr float kMost = 15;

struct Line {
  float scale, minimum;
};

bool is_finite(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// The integers nearest to the values on a line, as floats. A scale of 0 gives zeros.
void round_to_line(std::span<const float> values, const Line& line, float* quants) {
  const float inverse = line.scale > 0 ? 1 / line.scale : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float q = std::clamp((values[i] - line.minimum) * inverse, 0.0f, kMost);
    quants[i] = static_cast<float>(static_cast<int>(q + 0.5f));
  }
}

// The line of least squares through (quant, value).
Line fit(std::span<const float> values, const float* quants) {
  float q = 0, x = 0, qq = 0, qx = 0;
  // Differences from the first value: what they have in common must not eat up the digits.
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i] - values[0];
    q += quants[i], x += value, qq += quants[i] * quants[i], qx += quants[i] * value;
  }
  const auto count = static_cast<float>(values.size());
  const float spread = count * qq - q * q;
  const float scale = spread > 0 ? std::max(0.0f, (count * qx - q * x) / spread) : 0;
  return {scale, (x - scale * q) / count + values[0]};
}

// The best block of those that were tried.
struct Best {
  std::span<const float> values;
  Q4Block block;
  float error = INFINITY;  // sum of squares
  float quants[kQ8BlockElements] = {};

  // Tries a line, as f16 holds it.
  void try_line(const Line& line) {
    const uint16_t scale = float_to_half(line.scale), minimum = float_to_half(line.minimum);
    if (!is_finite(scale) || !is_finite(minimum)) return;
    const Line rounded = {half_to_float(scale), half_to_float(minimum)};
    float found[kQ8BlockElements], sum = 0;
    round_to_line(values, rounded, found);
    for (size_t i = 0; i < values.size(); ++i) {
      const float off = rounded.scale * found[i] + rounded.minimum - values[i];
      sum += off * off;
    }
    if (!(sum < error)) return;
    error = sum;
    block.scale = scale;
    block.minimum = minimum;
    std::copy_n(found, values.size(), quants);
  }
};

}  // namespace

Q4Block fit_q4(std::span<const float> values) {
  const auto [low, high] = std::ranges::minmax(values);
  const float range = high - low, middle = low + range / 2;
  Best best = {values, {}, INFINITY, {}};
  best.try_line({range / kMost, low});
  float quants[kQ8BlockElements];
  // Steps that the range is divided into. More than 15: the ends are cut off, and all others come closer.
  for (const float steps : {13.5f, 14.25f, 15.0f, 15.75f, 16.5f, 17.25f, 18.0f, 19.0f}) {
    if (best.error == 0) break;
    const float scale = range / steps;
    round_to_line(values, {scale, middle - kMost / 2 * scale}, quants);
    best.try_line(fit(values, quants));
  }
  for (float before = INFINITY; best.error < before;) {  // ends: the error falls and there are finitely many blocks
    before = best.error;
    best.try_line(fit(values, best.quants));
  }
  for (size_t i = 0; i < values.size(); ++i) best.block.quants[i] = static_cast<uint8_t>(best.quants[i]);
  return best.block;
}

}  // namespace weft
