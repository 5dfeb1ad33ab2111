#include "ops/support.h"

#include "project.spv.h"

namespace weft::ops {

void project(Recorder& recorder, const Matrix& table, const View& x, const View& logits, uint32_t tokens) {
  const Plan& plan = recorder.device().plan();
  require(tokens == 1 || tokens == plan.block_tokens, "project", "takes one token or one block of them");
  require_bytes(x, uint64_t{tokens} * stride_of(table.cols) * 4, "project", "x");
  require_bytes(logits, uint64_t{tokens} * table.rows * 4, "project", "logits");
  const Kernel& kernel = recorder.device().kernel({"project",
                                                   project_spv,
                                                   3,
                                                   0b100,
                                                   sizeof(abi::ProjectPush),
                                                   {static_cast<uint32_t>(table.format), tokens, plan.split}});
  for (const Matrix::Slice& slice : table.slices(plan.slice_bytes))
    recorder.dispatch(kernel, {slice.view, x, logits},
                      abi::ProjectPush{table.cols, slice.rows, slice.row_base, stride_of(table.cols), table.rows},
                      {ceil_div(slice.rows, TILE_ROWS)});
}

}  // namespace weft::ops
