// The spectrogram against Transformers' WhisperFeatureExtractor: tests/tools/log_mel_goldens.py.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "sound/log_mel.h"
#include "support/source_folder.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using nlohmann::json;

std::vector<float> heard(const MelFrames& frames) {
  const std::span<const float> powers = frames.at(0, frames.count());
  std::vector<float> result(powers.size());
  hear_powers(powers, *std::ranges::max_element(powers), result);
  return result;
}

std::vector<float> log_mel(std::span<const float> samples, uint32_t bands, size_t piece = SIZE_MAX / 2) {
  MelFrames frames(bands);
  for (size_t begin = 0; begin < samples.size(); begin += piece)
    frames.feed(samples.subspan(begin, std::min(piece, samples.size() - begin)));
  frames.finish();
  return heard(frames);
}

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
    const std::vector<float> sound = log_mel(samples, bands);
    ASSERT_EQ(sound.size(), size_t{3000} * bands);
    double worst = 0;
    for (const auto& [frame, want] : golden["frames"].items())
      for (uint32_t band = 0; band < bands; ++band)
        worst = std::max(worst, std::abs(want[band].get<double>() - sound[std::stoul(frame) * bands + band]));
    std::printf("%u bands: %.1e\n", bands, worst);
    EXPECT_LT(worst, 1e-4);
  }
}

TEST(LogMel, ShortAndSilentRecordings) {
  for (const size_t count : {0u, 1u, 2u, 159u, 160u, 161u, 400u, 5000u}) {
    const std::vector<float> sound = log_mel(recording(count), 80);
    EXPECT_EQ(sound.size(), (count / kSamplesPerFrame + 1) * 80) << count;
    for (const float value : sound) ASSERT_TRUE(std::isfinite(value)) << count;
    for (const float value : log_mel(std::vector<float>(count), 80)) ASSERT_EQ(value, -1.5f);
  }
}

TEST(LogMel, PiecesGiveTheSameFrames) {
  for (const size_t count : {1u, 199u, 200u, 201u, 360u, 361u, 5000u, 16001u}) {
    const std::vector<float> samples = recording(count), whole = log_mel(samples, 80);
    for (const size_t piece : {1u, 159u, 160u, 161u, 1000u}) EXPECT_EQ(log_mel(samples, 80, piece), whole) << count;
  }
}

TEST(LogMel, ForgetsFrames) {
  const std::vector<float> samples = recording(16000);
  MelFrames frames(80), other(80);
  frames.feed(samples);
  other.feed(samples);
  EXPECT_EQ(frames.count(), 99u);  // those whose samples are all there
  frames.forget(50);
  frames.feed(samples);
  other.feed(samples);
  EXPECT_TRUE(std::ranges::equal(frames.at(50, 140), other.at(50, 140)));
  EXPECT_THROW(frames.at(49, 2), Error);
  EXPECT_THROW(frames.at(50, 150), Error);
  frames.forget(1000);
  EXPECT_EQ(frames.count(), other.count());
}

}  // namespace
}  // namespace weft::test
