#include "model/sound_input.h"

#include <algorithm>

#include "model/network.h"
#include "model/parts.h"

namespace weft {

// The frames are never rounded to less than f16.
void SoundInput::list(Parts& parts, Pieces& pieces) {
  const Config& c = parts.config();
  const auto add = [&](Matrix& matrix, const char* role, uint32_t channels) {
    pieces.matrices.push_back(
        {matrix, uint64_t{kTaps} * stride_of(channels), {{role, c.width, 1, 0, channels}}, true, 0, Format::f16});
    pieces.vectors.push_back({matrix.bias, {{&parts.tensors().bias(role, -1, c.width)}}});
  };
  add(first, "conv1", c.bands);
  add(second, "conv2", c.width);
}

void SoundInput::record(const Network& n) const {
  const Config& c = n.c;
  const uint32_t rows = kTaps * n.tokens;
  const auto activate = [&](const View& state, const View& x, uint32_t count) {
    ops::activate(n.r, ops::Activation::gelu, false, state, x, x, c.width, count);
  };
  ops::matmul(n.r, first, n.pass.sound.state, n.pass.sound.columns, n.a.sound, rows, ops::Output::write);
  activate(n.pass.sound.state, n.a.sound, rows);
  n.r.fill(n.a.sound.part(0, uint64_t{stride_of(c.width)} * 4), 0);  // the frame before the first
  ops::matmul(n.r, second, n.state, n.a.sound, n.a.x, n.tokens, ops::Output::write);
  activate(n.state, n.a.x, n.tokens);
}

uint64_t columns_bytes(const Config& config, uint32_t tokens) {
  return uint64_t{tokens} * SoundInput::kTaps * SoundInput::kTaps * stride_of(config.bands) * 4;
}

void write_columns(std::span<const float> frames, uint32_t bands, std::span<float> columns) {
  constexpr int64_t kTaps = SoundInput::kTaps;
  const int64_t count = static_cast<int64_t>(frames.size() / bands);
  const size_t stride = stride_of(bands);
  for (int64_t row = 0; row < count / kFramesPerPosition * kTaps; ++row)
    for (int64_t tap = 0; tap < kTaps; ++tap) {
      const int64_t frame = kFramesPerPosition * (row / kTaps) - 1 + row % kTaps - 1 + tap;
      float* const to = &columns[static_cast<size_t>(row * kTaps + tap) * stride];
      if (frame < 0 || frame >= count)
        std::fill_n(to, bands, 0.0f);
      else
        std::copy_n(&frames[static_cast<size_t>(frame) * bands], bands, to);
    }
}

}  // namespace weft
