#include "ops/support.h"

#include "read.spv.h"

namespace weft::ops {

void read(Recorder& recorder, const View& words, const View& sums) {
  require(words.bytes % READ_BYTES == 0, "read", "the view is no whole number of READ_BYTES");
  const uint32_t groups = static_cast<uint32_t>(words.bytes / READ_BYTES);
  require_bytes(sums, uint64_t{groups} * 4, "read", "sums");
  const bool texel = recorder.device().plan().texel_products;
  recorder.dispatch({texel ? shaders::read_texel : shaders::read}, {words, sums}, {groups});
}

}  // namespace weft::ops
