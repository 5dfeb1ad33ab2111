#include "sound/log_mel.h"

#include <kissfft/kissfft.hh>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>

#include "base/error.h"

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

}  // namespace

struct MelFrames::State {
  uint32_t bands;
  std::vector<Band> weights;
  kissfft<double> transform{kWindow / 2, false};
  std::array<double, kWindow> hann;

  std::vector<float> samples;  // from `first_sample` on
  size_t first_sample = 0, sample_count = 0;
  std::vector<float> frames;  // from `first_frame` on
  size_t first_frame = 0, frame_count = 0;
  bool finished = false;

  // The sample at a place before the first or after the last one too: mirrored there. padded: samples with the zeros
  // after them.
  double mirrored(size_t padded, ptrdiff_t place) const {
    const auto last = static_cast<ptrdiff_t>(padded) - 1;
    place = std::abs(place) % (2 * last);
    if (place > last) place = 2 * last - place;
    return static_cast<size_t>(place) < sample_count ? samples[static_cast<size_t>(place) - first_sample] : 0;
  }

  void add_frame(size_t padded) {
    std::array<double, kWindow> windowed;
    std::array<std::complex<double>, kWindow / 2> half;  // half[0]: the first and the last bin
    std::array<double, kBins> power;
    const ptrdiff_t begin =
        static_cast<ptrdiff_t>(frame_count * kSamplesPerFrame) - static_cast<ptrdiff_t>(kWindow / 2);
    for (size_t i = 0; i < kWindow; ++i) windowed[i] = hann[i] * mirrored(padded, begin + static_cast<ptrdiff_t>(i));
    transform.transform_real(windowed.data(), half.data());
    power[0] = half[0].real() * half[0].real();
    power[kBins - 1] = half[0].imag() * half[0].imag();
    for (size_t bin = 1; bin + 1 < kBins; ++bin) power[bin] = std::norm(half[bin]);
    for (const Band& band : weights) {
      double sum = 0;
      for (size_t i = 0; i < band.weights.size(); ++i) sum += band.weights[i] * power[band.first + i];
      frames.push_back(static_cast<float>(std::log10(std::max(sum, 1e-10))));
    }
    ++frame_count;
  }
};

MelFrames::MelFrames(uint32_t bands) : state_(std::make_unique<State>()) {
  state_->bands = bands;
  state_->weights = make_bands(bands);
  for (size_t i = 0; i < kWindow; ++i)
    state_->hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kWindow);
}
MelFrames::~MelFrames() = default;
MelFrames::MelFrames(MelFrames&&) noexcept = default;
MelFrames& MelFrames::operator=(MelFrames&&) noexcept = default;

void MelFrames::feed(std::span<const float> samples) {
  State& s = *state_;
  s.samples.insert(s.samples.end(), samples.begin(), samples.end());
  s.sample_count += samples.size();
  // A frame is known once all of its samples are there. The first one is mirrored at sample 0.
  while (s.sample_count > s.frame_count * kSamplesPerFrame + kWindow / 2) s.add_frame(s.sample_count);
  const size_t needed = s.frame_count * kSamplesPerFrame;
  const size_t keep = std::max(s.first_sample, needed - std::min(needed, kWindow / 2));
  s.samples.erase(s.samples.begin(), s.samples.begin() + static_cast<ptrdiff_t>(keep - s.first_sample));
  s.first_sample = keep;
}

void MelFrames::finish() {
  State& s = *state_;
  const size_t padded = s.sample_count + kSamplesPerFrame;  // with zeros: the last frame is silence after the end
  while (s.frame_count < padded / kSamplesPerFrame) s.add_frame(padded);
  s.finished = true;
}

size_t MelFrames::count() const { return state_->frame_count; }
bool MelFrames::finished() const { return state_->finished; }

std::span<const float> MelFrames::at(size_t first, size_t count) const {
  const State& s = *state_;
  if (first < s.first_frame || first + count > s.frame_count)
    throw Error(Code::internal, "frames " + std::to_string(first) + " and on are not there", "spectrogram");
  return std::span(s.frames).subspan((first - s.first_frame) * s.bands, count * s.bands);
}

void MelFrames::forget(size_t end) {
  State& s = *state_;
  end = std::clamp(end, s.first_frame, s.frame_count);
  s.frames.erase(s.frames.begin(), s.frames.begin() + static_cast<ptrdiff_t>((end - s.first_frame) * s.bands));
  s.first_frame = end;
}

void hear_powers(std::span<const float> powers, float loudest, std::span<float> heard) {
  std::ranges::transform(powers, heard.begin(), [&](float value) { return (std::max(value, loudest - 8) + 4) / 4; });
}

}  // namespace weft
