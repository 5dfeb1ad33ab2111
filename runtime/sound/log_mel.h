// The spectrogram that Whisper hears (Radford et al. 2022): logarithms of the power in bands of the mel scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

inline constexpr uint32_t kSampleRate = 16000, kSamplesPerFrame = 160;

struct Spectrogram {
  uint32_t bands = 0;
  std::vector<float> frames;  // (count, bands), about -1 to 1.5

  size_t count() const { return frames.size() / bands; }
};

// samples: mono, kSampleRate a second, about -1 to 1, finite. Gives a frame for every kSamplesPerFrame samples that
// have begun, and one more, of 25 ms each around its beginning; before the first and after the last sample the sound is
// mirrored. Powers more than 80 dB below the loudest one of the recording are raised to that. The bands are Slaney's
// (triangles of equal area over 0 to 8 kHz), those of Transformers' WhisperFeatureExtractor. Computed in double
// precision by one thread: the same bits in every run.
Spectrogram log_mel(std::span<const float> samples, uint32_t bands);

}  // namespace weft
