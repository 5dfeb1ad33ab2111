// A block of q4: the integers, scale and minimum that stand for a few numbers with the least squared error.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "format/tensor.h"

namespace weft {

// value = scale * q + minimum.
struct Q4Block {
  uint16_t scale = 0, minimum = 0;                    // f16, finite
  std::array<uint8_t, kQ8BlockElements> quants = {};  // 0 .. 15; 0 after the values
};

// values: 1 to 32 numbers of magnitude 65504 at most. Their order does not matter to scale and minimum.
//
// The search begins with a block's range divided by 15. Ranges a little narrower or wider follow, each with the scale
// and minimum that least squares gives for the integers found; the best is refined once more. The k-quants of llama.cpp
// (I. Kawrakow 2023, https://github.com/ggml-org/llama.cpp/pull/1684) showed that better scales lie near the range's,
// and that least squares finds them; the alternation is Lloyd's (1982, "Least squares quantization in PCM"). The result
// is never worse than the range itself.
Q4Block fit_q4(std::span<const float> values);

}  // namespace weft
