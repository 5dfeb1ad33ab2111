#include "ops/support.h"

#include "short_conv.spv.h"

namespace weft::ops {

uint64_t conv_input_bytes(uint32_t cols, uint32_t capacity) { return uint64_t{capacity} * stride_of(cols) * 4; }

void short_conv(Recorder& recorder, const ConvShape& shape, const View& state, const View& gates, const View& kernel,
                const ConvInputs& inputs, const View& y, uint32_t tokens) {
  const uint32_t in_stride = stride_of(3 * shape.cols), out_stride = stride_of(shape.cols);
  const uint32_t own = inputs.member_tokens ? inputs.member_tokens : tokens;  // of a session
  require(shape.taps >= 1 && shape.taps <= kMostTaps && inputs.capacity + 1 >= shape.taps, "short_conv",
          "an unsupported number of taps");
  require(inputs.member_tokens <= CONV_TOKENS && tokens % own == 0, "short_conv", "too many tokens of a session");
  require_bytes(gates, uint64_t{tokens} * in_stride * 4, "short_conv", "gates");
  require_bytes(kernel, uint64_t{shape.cols} * (shape.taps + (shape.biased ? 1 : 0)) * 4, "short_conv", "kernel");
  require_bytes(inputs.rows, conv_input_bytes(shape.cols, inputs.capacity), "short_conv", "kept inputs");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "short_conv", "y");
  recorder.dispatch(
      shaders::short_conv,
      shaders::ShortConv::Constants{.member_tokens = inputs.member_tokens, .taps = shape.taps, .biased = shape.biased},
      shaders::ShortConv::Bindings{.state = state, .gates = gates, .kernel = kernel, .kept = inputs.rows, .y = y},
      abi::ShortConvPush{shape.cols, in_stride, out_stride, out_stride, inputs.capacity, own},
      {ceil_div(shape.cols, 64), tokens / own * ceil_div(own, CONV_TOKENS)});
}

}  // namespace weft::ops
