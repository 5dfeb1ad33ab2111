#include "ops/support.h"

#include "read.spv.h"
#include "read_texel.spv.h"

namespace weft::ops {

void read(Recorder& recorder, const View& words, const View& sums) {
  require(words.bytes % READ_BYTES == 0, "read", "the view is no whole number of READ_BYTES");
  const uint32_t groups = static_cast<uint32_t>(words.bytes / READ_BYTES);
  require_bytes(sums, uint64_t{groups} * 4, "read", "sums");
  const bool texel = recorder.device().plan().texel_products;
  std::span<const uint32_t> spirv = read_spv;
  if (texel) spirv = read_texel_spv;
  const Kernel& kernel = recorder.device().kernel({"read", spirv, 2, 0b10, 0, {}, 0, texel ? 0b1u : 0u});
  recorder.dispatch(kernel, {words, sums}, {groups});
}

}  // namespace weft::ops
