// The beginning of an encoder that reads sound: two convolutions over the frames of a spectrogram, each with a kernel
// of three frames, of which the second moves by two (Radford et al. 2022, "Robust Speech Recognition via Large-Scale
// Weak Supervision").
#pragma once

#include <span>

#include "ops/matrix.h"

namespace weft {

struct Config;
struct Network;
struct Pieces;
class Parts;

// Frames of the encoder's `context` positions: two for each.
inline constexpr uint32_t kFramesPerPosition = 2;

struct SoundInput {
  static constexpr uint32_t kTaps = 3;

  Buffer buffer;
  Matrix first;   // (width, kTaps * stride_of(bands))
  Matrix second;  // (width, kTaps * stride_of(width))

  void list(Parts& parts, Pieces& pieces);
  // x = gelu(second gelu(first frames)). A convolution is a product with windows of rows. The windows of the
  // second share frames, which the first one computes once for each window: then they lie one after the other.
  void record(const Network& network) const;
};

// Further inputs of a pass: windows of frames, in mapped memory.
struct SoundFrames {
  View columns;  // (tokens * kTaps, kTaps * stride_of(bands))
  View state;    // abi::StepState, for as many rows
};
uint64_t columns_bytes(const Config& config, uint32_t tokens);
// columns = windows of `frames` (kFramesPerPosition * positions, bands): row kTaps * t + i has the frames around
// 2 t - 1 + i, and zeros for frames before the first and after the last.
void write_columns(std::span<const float> frames, uint32_t bands, std::span<float> columns);

}  // namespace weft
