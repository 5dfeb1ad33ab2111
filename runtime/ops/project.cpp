#include "ops/rows.h"

#include "project.spv.h"
#include "project_texel.spv.h"
#include "project_uniform.spv.h"

namespace weft::ops {

void project(Recorder& recorder, const Matrix& table, const View& x, const View& logits, uint32_t tokens) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, table, tokens);
  const uint64_t in_stride = stride_of(table.cols);
  require(table.layout == Layout::planes, "project", "the matrix is no vocabulary table");
  require(tokens % variant.tokens == 0, "project", "the tokens are no whole number of groups");
  require_bytes(x, tokens * in_stride * 4, "project", "x");
  const uint64_t last = uint64_t{tokens - 1} * stride_of(table.rows) + table.rows;
  require_bytes(logits, last * 4, "project", "logits");
  const Kernel& kernel = recorder.device().kernel(product_spec(
      "project", {project_spv, project_uniform_spv, project_texel_spv}, variant, 3, 0b100, sizeof(abi::ProjectPush)));
  for (const Matrix::Slice& slice : table.slices(plan.slice_bytes))
    for (uint32_t first = 0; first < tokens; first += variant.tokens)
      recorder.dispatch(kernel, {slice.view, x.part(first * in_stride * 4, variant.tokens * in_stride * 4), logits},
                        abi::ProjectPush{table.cols, slice.rows, slice.row_base, static_cast<uint32_t>(in_stride),
                                         stride_of(table.rows), first},
                        {ceil_div(slice.rows, variant.group_rows)});
}

}  // namespace weft::ops
