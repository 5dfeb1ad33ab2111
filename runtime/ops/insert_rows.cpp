#include "ops/support.h"

#include "insert_rows.spv.h"

namespace weft::ops {

void insert_rows(Recorder& recorder, const View& state, const View& history, const View& rows, const View& x,
                 uint32_t cols, uint32_t tokens, Output output) {
  const uint32_t stride = stride_of(cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "insert_rows", "x");
  require(rows.bytes % (uint64_t{stride} * 4) == 0, "insert_rows", "the rows are no whole number of rows");
  const uint32_t count = static_cast<uint32_t>(rows.bytes / (uint64_t{stride} * 4));
  recorder.dispatch(shaders::insert_rows, shaders::InsertRows::Constants{.add = output == Output::add},
                    shaders::InsertRows::Bindings{.state = state, .history = history, .rows = rows, .x = x},
                    abi::InsertRowsPush{cols, stride, count}, {ceil_div(cols, 64), tokens});
}

}  // namespace weft::ops
