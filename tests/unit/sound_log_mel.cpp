// The spectrogram against Transformers' WhisperFeatureExtractor: tests/tools/log_mel_goldens.py.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sound/log_mel.h"
#include "support/source_folder.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using nlohmann::json;

// As log_mel_goldens.py makes it: two tones, one of which rises, and noise.
std::vector<float> recording(size_t count) {
  std::vector<float> samples(count);
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const double t = static_cast<double>(i) / kSampleRate;
    samples[i] =
        static_cast<float>(0.3 * std::sin(2 * M_PI * 440 * t) + 0.2 * std::sin(2 * M_PI * (300 + 900 * t) * t) +
                           0.01 * (static_cast<double>(state >> 8) / (1 << 24) - 0.5));
  }
  return samples;
}

TEST(LogMel, EqualsTransformers) {
  const json goldens = json::parse(std::ifstream(source_folder() / "tests/unit/golden_log_mel.json"));
  for (const json& golden : goldens) {
    const uint32_t bands = golden["bands"];
    std::vector<float> samples = recording(golden["samples"].get<size_t>());
    samples.resize(30 * kSampleRate - kSamplesPerFrame);  // log_mel adds a frame of silence, the extractor none
    const Spectrogram sound = log_mel(samples, bands);
    ASSERT_EQ(sound.count(), 3000u);
    double worst = 0;
    for (const auto& [frame, want] : golden["frames"].items())
      for (uint32_t band = 0; band < bands; ++band)
        worst = std::max(worst, std::abs(want[band].get<double>() - sound.frames[std::stoul(frame) * bands + band]));
    std::printf("%u bands: %.1e\n", bands, worst);
    EXPECT_LT(worst, 1e-4);
    EXPECT_EQ(log_mel(samples, bands).frames, sound.frames);
  }
}

TEST(LogMel, ShortAndSilentRecordings) {
  for (const size_t count : {0u, 1u, 2u, 159u, 160u, 161u, 400u, 5000u}) {
    const Spectrogram sound = log_mel(recording(count), 80);
    EXPECT_EQ(sound.count(), count / kSamplesPerFrame + 1) << count;
    for (const float value : sound.frames) ASSERT_TRUE(std::isfinite(value)) << count;
    for (const float value : log_mel(std::vector<float>(count), 80).frames) ASSERT_EQ(value, -1.5f);
  }
}

}  // namespace
}  // namespace weft::test
