#include "ops/rows.h"

#include "project_rows.spv.h"

namespace weft::ops {

void project_rows(Recorder& recorder, const Matrix& table, const View& x, const View& state, const RowList& list,
                  const View& logits) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, table, 1);
  require(table.layout == Layout::planes, "project_rows", "the matrix is no vocabulary table");
  require_bytes(x, uint64_t{stride_of(table.cols)} * 4, "project_rows", "x");
  KernelSpec spec = variant.kernel(shaders::project_rows, shaders::project_rows_subgroup, shaders::project_rows_texel);
  spec.constants.push_back(plan.fewest_registers);
  for (const Matrix::Slice& slice : table.slices(plan.slice_bytes))
    recorder.dispatch_indirect(spec,
                               {slice.view, x.part(0, uint64_t{stride_of(table.cols)} * 4), state, list.ids, logits},
                               abi::ProjectRowsPush{table.cols, slice.row_base, slice.rows, list.ids_at,
                                                    list.leaders ? 1u : 0u, list.logits_at},
                               list.groups);
}

}  // namespace weft::ops
