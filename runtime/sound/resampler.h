// Brings sound to the rate that models hear, by interpolation with a limited band (Smith 2002, "Digital Audio
// Resampling Home Page").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// The same samples come out whatever the pieces are that go in, except that the last ones come with finish().
class Resampler {
 public:
  static constexpr uint32_t kLowestRate = 1000, kHighestRate = 768000;

  // rate: of the samples that are fed, kLowestRate to kHighestRate a second.
  explicit Resampler(uint32_t rate);

  // Both return samples of kSampleRate, which are valid until the next call and as long as those fed. Frequencies above
  // 0.455 of the lower rate are attenuated, those above 0.5 of it by 80 dB.
  std::span<const float> feed(std::span<const float> samples);
  std::span<const float> finish();

 private:
  std::span<const float> take(size_t known);
  double kernel(double zeros) const;
  void fill(std::span<double> weights, double fraction) const;
  std::span<const double> weights(uint32_t remainder);

  uint32_t rate_;
  double cutoff_;              // of the lower rate's band, in that of the samples
  size_t reach_;               // samples before and after a place that it takes
  std::vector<double> table_;  // the kernel by its distance from the middle
  // A place of the output lies `remainder` / kSampleRate behind a sample, a multiple of step_. By remainder / step_:
  // the weights of the samples around such a place, when they have been needed; none if they would take too much
  // memory.
  uint32_t step_;
  std::vector<std::vector<double>> phases_;
  std::vector<double> one_phase_;
  std::vector<float> samples_, output_;
  size_t first_ = 0, fed_ = 0, given_ = 0;
};

}  // namespace weft
