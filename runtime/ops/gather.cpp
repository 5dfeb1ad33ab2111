#include "ops/support.h"

#include "gather.spv.h"

namespace weft::ops {

void gather(Recorder& recorder, const Matrix& table, const View& state, const View& history, const View& x,
            uint32_t tokens, float scale, Output output) {
  require_bytes(x, uint64_t{tokens} * stride_of(table.cols) * 4, "gather", "x");
  const uint32_t quads = table.blocks() * BLOCK / 4;
  for (const Matrix::Slice& slice : table.slices(recorder.device().plan().slice_bytes))
    recorder.dispatch(
        shaders::gather,
        shaders::Gather::Constants{.format = table.format, .layout = table.layout, .add = output == Output::add},
        shaders::Gather::Bindings{.words = slice.view, .state = state, .history = history, .x = x},
        abi::GatherPush{table.cols, stride_of(table.cols), slice.row_base, slice.rows, scale},
        {ceil_div(quads, 64), tokens});
}

}  // namespace weft::ops
