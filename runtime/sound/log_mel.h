// The spectrogram that Whisper hears (Radford et al. 2022): logarithms of the power in bands of the mel scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft {

inline constexpr uint32_t kSampleRate = 16000, kSamplesPerFrame = 160;

// The frames of a recording, which may come in pieces. There is a frame for every kSamplesPerFrame samples that have
// begun, and one more, of 25 ms each around its beginning; before the first and after the last sample the sound is
// mirrored. The bands are Slaney's (triangles of equal area over 0 to 8 kHz), those of Transformers'
// WhisperFeatureExtractor. Computed in double precision by one thread: the same bits in every run, and for all pieces.
class MelFrames {
 public:
  explicit MelFrames(uint32_t bands);
  ~MelFrames();
  MelFrames(MelFrames&&) noexcept;
  MelFrames& operator=(MelFrames&&) noexcept;

  // samples: mono, kSampleRate a second, about -1 to 1, finite.
  void feed(std::span<const float> samples);
  void finish();  // the recording ends here

  size_t count() const;  // frames that are known
  bool finished() const;
  // Logarithms (base 10) of the powers, at least -10: (count, bands). Throws for frames that were forgotten.
  std::span<const float> at(size_t first, size_t count) const;
  void forget(size_t end);  // the frames before

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The input that the model hears of such frames, about -1 to 1.5: powers more than 80 dB below `loudest` are raised to
// that.
void hear_powers(std::span<const float> powers, float loudest, std::span<float> heard);

}  // namespace weft
