#include "sound/log_mel.h"

#include <kissfft/kissfft.hh>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>

namespace weft {
namespace {

constexpr size_t kWindow = 400, kBins = kWindow / 2 + 1;
constexpr double kHighest = kSampleRate / 2.0;

// Slaney's scale: linear to 1 kHz, which is mel 15, and logarithmic above, with 27 mel for a factor of 6.4.
constexpr double kKnee = 1000, kKneeMel = 15;
const double kStep = std::log(6.4) / 27;

double to_mel(double hertz) {
  return hertz < kKnee ? hertz * kKneeMel / kKnee : kKneeMel + std::log(hertz / kKnee) / kStep;
}
double to_hertz(double mel) {
  return mel < kKneeMel ? mel * kKnee / kKneeMel : kKnee * std::exp(kStep * (mel - kKneeMel));
}

// A band's weights of the bins from `first` on.
struct Band {
  size_t first = 0;
  std::vector<double> weights;
};

std::vector<Band> make_bands(uint32_t count) {
  std::vector<double> edges(count + 2);
  for (size_t i = 0; i < edges.size(); ++i)
    edges[i] = to_hertz(to_mel(kHighest) * static_cast<double>(i) / (count + 1));
  std::vector<Band> bands(count);
  for (size_t i = 0; i < count; ++i) {
    const double low = edges[i], middle = edges[i + 1], high = edges[i + 2];
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double hertz = kHighest * static_cast<double>(bin) / (kBins - 1);
      const double height = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      if (height <= 0) continue;
      if (bands[i].weights.empty()) bands[i].first = bin;
      bands[i].weights.push_back(height * 2 / (high - low));
    }
  }
  return bands;
}

// The sample at a place before the first or after the last one too: mirrored there.
double mirrored(std::span<const float> samples, size_t padded, ptrdiff_t place) {
  const auto last = static_cast<ptrdiff_t>(padded) - 1;
  place = std::abs(place) % (2 * last);
  if (place > last) place = 2 * last - place;
  return static_cast<size_t>(place) < samples.size() ? samples[static_cast<size_t>(place)] : 0;
}

}  // namespace

Spectrogram log_mel(std::span<const float> samples, uint32_t bands) {
  const std::vector<Band> weights = make_bands(bands);
  const kissfft<double> transform(kWindow / 2, false);
  std::array<double, kWindow> hann, windowed;
  for (size_t i = 0; i < kWindow; ++i)
    hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kWindow);
  std::array<std::complex<double>, kWindow / 2> half;  // half[0]: the first and the last bin
  std::array<double, kBins> power;

  const size_t padded = samples.size() + kSamplesPerFrame;  // with zeros: the last frame is silence after the end
  Spectrogram result = {bands, {}};
  result.frames.reserve(padded / kSamplesPerFrame * bands);
  float loudest = -10;
  for (size_t frame = 0; frame < padded / kSamplesPerFrame; ++frame) {
    const ptrdiff_t begin = static_cast<ptrdiff_t>(frame * kSamplesPerFrame) - static_cast<ptrdiff_t>(kWindow / 2);
    for (size_t i = 0; i < kWindow; ++i)
      windowed[i] = hann[i] * mirrored(samples, padded, begin + static_cast<ptrdiff_t>(i));
    transform.transform_real(windowed.data(), half.data());
    power[0] = half[0].real() * half[0].real();
    power[kBins - 1] = half[0].imag() * half[0].imag();
    for (size_t bin = 1; bin + 1 < kBins; ++bin) power[bin] = std::norm(half[bin]);
    for (const Band& band : weights) {
      double sum = 0;
      for (size_t i = 0; i < band.weights.size(); ++i) sum += band.weights[i] * power[band.first + i];
      result.frames.push_back(static_cast<float>(std::log10(std::max(sum, 1e-10))));
      loudest = std::max(loudest, result.frames.back());
    }
  }
  for (float& value : result.frames) value = (std::max(value, loudest - 8) + 4) / 4;
  return result;
}

}  // namespace weft
