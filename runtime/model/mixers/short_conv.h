// The gated short convolution of LFM2 (Amini et al. 2025, "LFM2 Technical Report"): with B, C, x = W_in input, the
// output is W_out (C * conv(B * x)), where conv has a kernel of a few taps for each column.
#pragma once

#include <vector>

#include "model/copied_range.h"
#include "model/linear.h"

namespace weft {

struct Config;
struct Network;
struct Pieces;
struct StateSize;
class Parts;

struct ShortConv;
struct ShortConvState;

struct ShortConvConfig {
  using Mixer = ShortConv;

  uint32_t taps = 0;  // of the kernel, 1 to ops::kMostTaps; the last one is of the token itself
  bool biased = false;

  ShortConvState state(const Config& config, const StateSize& size) const;
};

// The last inputs of the convolution, B * x: those that the next token reads, and room for tokens that are taken back.
struct ShortConvState {
  static constexpr bool kRecurrent = true;
  static constexpr uint64_t scratch_bytes = 0;

  ops::ConvInputs inputs;
  uint32_t taps = 0;

  std::vector<View*> arrays() { return {&inputs.rows}; }
  bool holds(uint64_t tokens, uint64_t written) const {
    return tokens + 1 + inputs.capacity >= written + std::min<uint64_t>(taps, tokens + 1);
  }
  std::vector<View> parts(uint64_t tokens, uint64_t) const {
    return tokens == 0 ? std::vector<View>() : std::vector<View>{inputs.rows};
  }
  static CopiedRange copied(uint64_t tokens) { return {0, tokens}; }  // as far as the rows have it (holds)
  double bytes_read(uint64_t, uint64_t) const {
    return static_cast<double>(inputs.rows.bytes) / inputs.capacity * (taps - 1);
  }
};

struct ShortConv {
  Linear in;    // (3 * width, width): B, C, x
  View kernel;  // (width, taps), then, if biased, (width) biases
  Linear out;   // (width, width)

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const { return {&in, &out}; }
  // Returns the input of `out`.
  View record(const Network& network, uint32_t index, const ops::Input& input) const;
};

}  // namespace weft
