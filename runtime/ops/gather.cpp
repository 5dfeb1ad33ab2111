#include "ops/support.h"

#include "gather.spv.h"

namespace weft::ops {

void gather(Recorder& recorder, const Matrix& table, const View& state, const View& history, const View& x,
            uint32_t tokens, float scale) {
  require(table.layout == Layout::planes, "gather", "the matrix is no vocabulary table");
  require_bytes(x, uint64_t{tokens} * stride_of(table.cols) * 4, "gather", "x");
  const uint32_t parts = table.blocks() * 2;  // of 16 elements
  for (const Matrix::Slice& slice : table.slices(recorder.device().plan().slice_bytes))
    recorder.dispatch({shaders::gather, {static_cast<uint32_t>(table.format)}}, {slice.view, state, history, x},
                      abi::GatherPush{table.cols, stride_of(table.cols), slice.row_base, slice.rows, scale},
                      {ceil_div(parts, 64), tokens});
}

}  // namespace weft::ops
