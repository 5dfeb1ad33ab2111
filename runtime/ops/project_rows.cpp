#include "ops/rows.h"

#include "project_rows.spv.h"

namespace weft::ops {

void project_rows(Recorder& recorder, const Matrix& table, const View& x, const View& state, const RowList& list,
                  const View& logits) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, table, 1);
  require(table.layout == Layout::planes, "project_rows", "the matrix is no vocabulary table");
  require_bytes(x, uint64_t{stride_of(table.cols)} * 4, "project_rows", "x");
  const shaders::ProjectRows& shader =
      variant.choose(shaders::project_rows, shaders::project_rows_subgroup, shaders::project_rows_texel);
  for (const Matrix::Slice& slice : table.slices(plan.slice_bytes))
    recorder.dispatch_indirect(shader,
                               shaders::ProjectRows::Constants{.format = variant.format,
                                                               .tokens = variant.tokens,
                                                               .split = variant.split,
                                                               .row_tiles = variant.row_tiles,
                                                               .fewest_registers = plan.fewest_registers},
                               shaders::ProjectRows::Bindings{.words = slice.view,
                                                              .inputs = x.part(0, uint64_t{stride_of(table.cols)} * 4),
                                                              .state = state,
                                                              .ids = list.ids,
                                                              .logits = logits},
                               abi::ProjectRowsPush{table.cols, slice.row_base, slice.rows, list.ids_at,
                                                    list.leaders ? 1u : 0u, list.logits_at},
                               list.groups);
}

}  // namespace weft::ops
