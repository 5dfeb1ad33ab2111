#include "ops/support.h"

#include "read_bandwidth.spv.h"

namespace weft::ops {

void read_bandwidth(Recorder& recorder, const View& words, const View& sums) {
  require(words.bytes % READ_BYTES == 0, "read_bandwidth", "the view is no whole number of READ_BYTES");
  const uint32_t groups = static_cast<uint32_t>(words.bytes / READ_BYTES);
  require_bytes(sums, uint64_t{groups} * 4, "read_bandwidth", "sums");
  const bool texel = recorder.device().plan().texel_products;
  recorder.dispatch(texel ? shaders::read_bandwidth_texel : shaders::read_bandwidth, {},
                    shaders::ReadBandwidth::Bindings{.words = words, .sums = sums}, {groups});
}

}  // namespace weft::ops
