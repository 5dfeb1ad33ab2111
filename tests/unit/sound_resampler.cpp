// Sound of other rates, as tones that are known at every rate.
#include "sound/resampler.h"

#include <cmath>

#include "sound/log_mel.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using Samples = std::vector<float>;

Samples tone(uint32_t rate, double hertz, double seconds) {
  Samples samples(static_cast<size_t>(rate * seconds));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<float>(0.5 * std::sin(2 * M_PI * hertz * static_cast<double>(i) / rate));
  return samples;
}

void add(Samples& to, std::span<const float> more) { to.insert(to.end(), more.begin(), more.end()); }

Samples in_pieces(uint32_t rate, const Samples& samples, size_t piece) {
  Resampler resampler(rate);
  Samples result;
  for (size_t begin = 0; begin < samples.size(); begin += piece)
    add(result, resampler.feed(std::span(samples).subspan(begin, std::min(piece, samples.size() - begin))));
  add(result, resampler.finish());
  return result;
}

constexpr uint32_t kRates[] = {1000, 8000, 11025, 15999, 16000, 16001, 22050, 44100, 48000, 96000, 768000};

TEST(Resampler, KeepsTones) {
  for (const uint32_t rate : kRates)
    for (const double part : {0.01, 0.3, 0.9}) {  // of the band that is kept
      const double hertz = part * 0.455 * std::min(rate, kSampleRate);
      const double seconds = rate < 8000 ? 1 : 0.2;
      const Samples got = in_pieces(rate, tone(rate, hertz, seconds), SIZE_MAX / 2),
                    want = tone(kSampleRate, hertz, seconds);
      ASSERT_NEAR(static_cast<double>(got.size()), static_cast<double>(want.size()), 1) << rate;
      const size_t edge =
          size_t{80} * ((std::max(rate, kSampleRate) + rate - 1) / rate);  // where the tone begins or ends
      double worst = 0;
      for (size_t i = edge; i + edge < want.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
      EXPECT_LT(worst, 1e-4) << rate << " " << hertz;
    }
}

TEST(Resampler, LeavesOutWhatTheLowerRateCannotHave) {
  for (const uint32_t rate : {22050u, 48000u, 96000u})
    for (const double hertz : {8000.0, 9000.0, 10900.0}) {
      const Samples got = in_pieces(rate, tone(rate, hertz, 0.2), SIZE_MAX / 2);
      for (size_t i = 80; i + 80 < got.size(); ++i) ASSERT_LT(std::abs(got[i]), 0.5e-4) << rate << " " << hertz;
    }
}

TEST(Resampler, PiecesGiveTheSameSamples) {
  for (const uint32_t rate : kRates) {
    const Samples samples = tone(rate, 0.1 * std::min(rate, kSampleRate), rate > 100000 ? 0.02 : 0.3);
    const Samples whole = in_pieces(rate, samples, SIZE_MAX / 2);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{rate / 100}, size_t{997}})
      EXPECT_EQ(in_pieces(rate, samples, piece), whole) << rate << " " << piece;
  }
}

TEST(Resampler, FewSamples) {
  for (const uint32_t rate : kRates)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{50}}) {
      const Samples got = in_pieces(rate, Samples(count, 0.5f), 1);
      EXPECT_EQ(got.size(), (count * kSampleRate + rate - 1) / rate) << rate << " " << count;
    }
}

}  // namespace
}  // namespace weft::test
