#include "ops/support.h"

#include "add_positions.spv.h"

namespace weft::ops {

void add_positions(Recorder& recorder, const View& state, const View& table, const View& x, uint32_t cols,
                   uint32_t tokens) {
  const uint32_t stride = stride_of(cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "add_positions", "x");
  require(table.bytes % (uint64_t{cols} * 4) == 0, "add_positions", "the table is no whole number of rows");
  const uint32_t positions = static_cast<uint32_t>(table.bytes / (uint64_t{cols} * 4));
  recorder.dispatch(shaders::add_positions, {}, shaders::AddPositions::Bindings{.state = state, .table = table, .x = x},
                    abi::AddPositionsPush{cols, stride, positions}, {ceil_div(cols, 64), tokens});
}

}  // namespace weft::ops
