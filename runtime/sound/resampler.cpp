#include "sound/resampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sound/log_mel.h"

namespace weft {
namespace {

constexpr size_t kZeros = 64, kSteps = 512;      // of the kernel's side; of its table for each
constexpr double kPass = 0.955, kSidelobes = 9;  // of the band; beta of Kaiser's window

// The modified Bessel function of the first kind, of order 0.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > 1e-12 * sum; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

}  // namespace

Resampler::Resampler(uint32_t rate)
    : rate_(rate),
      cutoff_(kPass * std::min(1.0, static_cast<double>(kSampleRate) / rate)),
      reach_(static_cast<size_t>(std::ceil(kZeros / cutoff_))),
      table_(kZeros * kSteps + 2) {
  for (size_t i = 0; i <= kZeros * kSteps; ++i) {
    const double x = static_cast<double>(i) / kSteps, edge = x / kZeros;
    const double sinc = i == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    table_[i] = sinc * bessel(kSidelobes * std::sqrt(std::max(0.0, 1 - edge * edge))) / bessel(kSidelobes);
  }
}

// zeros: distance from the middle, in zeros of the kernel.
double Resampler::kernel(double zeros) const {
  const double place = zeros * kSteps;
  const auto i = static_cast<size_t>(place);
  if (i >= kZeros * kSteps) return 0;
  return table_[i] + (place - static_cast<double>(i)) * (table_[i + 1] - table_[i]);
}

std::span<const float> Resampler::feed(std::span<const float> samples) {
  if (rate_ == kSampleRate) return samples;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  fed_ += samples.size();
  return take(fed_ - std::min(fed_, reach_));
}

std::span<const float> Resampler::finish() { return take(fed_); }

// Gives the samples whose place is before `known`.
std::span<const float> Resampler::take(size_t known) {
  output_.clear();
  for (;; ++given_) {
    // Place given_ * rate_ / kSampleRate, as a whole sample and a fraction of one.
    const uint64_t scaled = uint64_t{given_} * rate_;
    const size_t whole = scaled / kSampleRate;
    if (whole >= known) break;
    const double fraction = static_cast<double>(scaled % kSampleRate) / kSampleRate;
    const size_t begin = whole - std::min(whole, reach_), end = std::min(whole + reach_ + 1, fed_);
    double sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum += samples_[i - first_] *
             kernel(cutoff_ * std::abs(static_cast<double>(i) - static_cast<double>(whole) - fraction));
    output_.push_back(static_cast<float>(cutoff_ * sum));
  }
  const size_t next = uint64_t{given_} * rate_ / kSampleRate, keep = std::min(fed_, next - std::min(next, reach_));
  if (keep > first_) {
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<ptrdiff_t>(keep - first_));
    first_ = keep;
  }
  return output_;
}

}  // namespace weft
