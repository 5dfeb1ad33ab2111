#include "sound/resampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "sound/log_mel.h"

namespace weft {
namespace {

constexpr size_t kZeros = 64, kSteps = 512;       // of the kernel's side; of its table for each
constexpr size_t kMostWeights = size_t{1} << 20;  // that are kept
constexpr double kPass = 0.955, kSidelobes = 9;   // of the band; beta of Kaiser's window

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
      table_(kZeros * kSteps + 2),
      step_(std::gcd(rate, kSampleRate)) {
  const size_t phases = kSampleRate / step_;
  if (phases * (2 * reach_ + 1) <= kMostWeights) phases_.resize(phases);
  for (size_t i = 0; i <= kZeros * kSteps; ++i) {
    const double x = static_cast<double>(i) / kSteps, edge = x / kZeros;
    const double sinc = i == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    table_[i] = sinc * bessel(kSidelobes * std::sqrt(std::max(0.0, 1 - edge * edge))) / bessel(kSidelobes);
  }
}

// weights: of the samples from reach_ before a place's whole sample to reach_ after it. fraction: of the place.
void Resampler::fill(std::span<double> weights, double fraction) const {
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = cutoff_ * kernel(cutoff_ * std::abs(static_cast<double>(i) - static_cast<double>(reach_) - fraction));
}

std::span<const double> Resampler::weights(uint32_t remainder) {
  std::vector<double>& found = phases_.empty() ? one_phase_ : phases_[remainder / step_];
  if (found.empty() || phases_.empty()) {
    found.resize(2 * reach_ + 1);
    fill(found, static_cast<double>(remainder) / kSampleRate);
  }
  return found;
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
    const size_t begin = whole - std::min(whole, reach_), end = std::min(whole + reach_ + 1, fed_);
    const double* const weight = &weights(static_cast<uint32_t>(scaled % kSampleRate))[begin + reach_ - whole];
    const float* const sample = &samples_[begin - first_];
    constexpr size_t kSums = 4;  // independent, so that a processor computes them side by side
    double sums[kSums] = {};
    const size_t count = end - begin, even = count / kSums * kSums;
    for (size_t i = 0; i < even; i += kSums)
      for (size_t k = 0; k < kSums; ++k) sums[k] += sample[i + k] * weight[i + k];
    for (size_t i = even; i < count; ++i) sums[0] += sample[i] * weight[i];
    output_.push_back(static_cast<float>(sums[0] + sums[1] + (sums[2] + sums[3])));
  }
  const size_t next = uint64_t{given_} * rate_ / kSampleRate, keep = std::min(fed_, next - std::min(next, reach_));
  if (keep > first_) {
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<ptrdiff_t>(keep - first_));
    first_ = keep;
  }
  return output_;
}

}  // namespace weft
