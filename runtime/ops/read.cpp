#include "ops/support.h"

#include "read.spv.h"

namespace weft::ops {

void read(Recorder& recorder, const View& words, const View& sums) {
  const uint32_t count = static_cast<uint32_t>(words.bytes / 16);
  const uint32_t groups = ceil_div(count, 64 * 32);
  require_bytes(sums, uint64_t{groups} * 4, "read", "sums");
  const Kernel& kernel = recorder.device().kernel({"read", read_spv, 2, 0b10, sizeof(abi::ReadPush), {}});
  recorder.dispatch(kernel, {words, sums}, abi::ReadPush{count}, {groups});
}

}  // namespace weft::ops
