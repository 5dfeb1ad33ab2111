#include "ops/rows.h"

#include "project.spv.h"

namespace weft::ops {

namespace {

// The table's slices, or those of some of its rows.
std::vector<Matrix::Slice> slices_of(const Plan& plan, const Matrix& table, std::span<const RowRange> ranges) {
  if (ranges.empty()) return table.slices(plan.slice_bytes);
  std::vector<Matrix::Slice> slices;
  for (const RowRange& range : ranges) {
    require(range.first % TILE_ROWS == 0 && range.count > 0 && uint64_t{range.first} + range.count <= table.rows,
            "project", "a range of rows that the table does not have");
    Matrix part = table;
    part.rows = range.count;
    part.view = table.view.part(range.first / TILE_ROWS * table.tile_bytes(), part.bytes());
    for (Matrix::Slice& slice : part.slices(plan.slice_bytes)) {
      slice.row_base += range.first;
      slices.push_back(slice);
    }
  }
  return slices;
}

// best: leaves candidates, else logits.
shaders::Project::Constants constants_of(const Plan& plan, const Matrix& table, const RowsVariant& variant, bool best) {
  return {.format = variant.format,
          .tokens = variant.tokens,
          .split = variant.split,
          .row_tiles = variant.row_tiles,
          .fewest_registers = plan.fewest_registers,
          .best = best,
          .layout = table.layout,
          .step = blocks_at_once(plan, table, variant)};
}

const shaders::Project& shader_of(const RowsVariant& variant) {
  return variant.choose(shaders::project, shaders::project_subgroup, shaders::project_texel);
}

// best: leaves candidates in `out`, else logits.
void record(Recorder& recorder, const Matrix& table, const View& x, const View& out, uint32_t out_stride,
            uint32_t tokens, bool best, std::span<const RowRange> ranges) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, table, tokens);
  const uint64_t in_stride = stride_of(table.cols);
  require(tokens % variant.tokens == 0, "project", "the tokens are no whole number of groups");
  require_bytes(x, tokens * in_stride * 4, "project", "x");
  const shaders::Project& shader = shader_of(variant);
  uint32_t first_group = 0;
  for (const Matrix::Slice& slice : slices_of(plan, table, ranges)) {
    const uint32_t groups = ceil_div(slice.rows, variant.group_rows);
    for (uint32_t first = 0; first < tokens; first += variant.tokens)
      recorder.dispatch(
          shader, constants_of(plan, table, variant, best),
          shaders::Project::Bindings{.words = slice.view,
                                     .inputs = x.part(first * in_stride * 4, variant.tokens * in_stride * 4),
                                     .logits = best ? View{} : out,
                                     .candidates = best ? out : View{}},
          abi::ProjectPush{table.cols, slice.rows, slice.row_base, static_cast<uint32_t>(in_stride), out_stride, first,
                           first_group},
          {groups});
    first_group += groups;
  }
}

}  // namespace

void project(Recorder& recorder, const Matrix& table, const View& x, const View& logits, uint32_t tokens,
             std::span<const RowRange> ranges) {
  const uint64_t last = uint64_t{tokens - 1} * stride_of(table.rows) + table.rows;
  require_bytes(logits, last * 4, "project", "logits");
  record(recorder, table, x, logits, stride_of(table.rows), tokens, false, ranges);
}

void project_if(Recorder& recorder, const Matrix& table, const View& x, const View& logits, const RowRange& range,
                const View& groups) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, table, 1);
  const uint32_t in_stride = stride_of(table.cols), out_stride = stride_of(table.rows);
  require_bytes(x, uint64_t{in_stride} * 4, "project", "x");
  require_bytes(logits, uint64_t{table.rows} * 4, "project", "logits");
  const shaders::Project& shader = shader_of(variant);
  const std::vector<Matrix::Slice> slices = slices_of(plan, table, {&range, 1});
  for (const Matrix::Slice& slice : slices)
    recorder.dispatch_indirect(
        shader, constants_of(plan, table, variant, false),
        shaders::Project::Bindings{.words = slice.view, .inputs = x.part(0, uint64_t{in_stride} * 4), .logits = logits},
        abi::ProjectPush{table.cols, slice.rows, slice.row_base, in_stride, out_stride, 0, 0},
        groups.part(&slice == &slices.back() ? sizeof(abi::Indirect) : 0, sizeof(abi::Indirect)));
}

uint32_t best_count(const Plan& plan, const Matrix& table, std::span<const RowRange> ranges) {
  const uint32_t group_rows = rows_variant(plan, table, 1).group_rows;
  uint32_t count = 0;
  for (const Matrix::Slice& slice : slices_of(plan, table, ranges)) count += ceil_div(slice.rows, group_rows);
  return count;
}

void project_best(Recorder& recorder, const Matrix& table, const View& x, const View& candidates, uint32_t stride,
                  uint32_t tokens, std::span<const RowRange> ranges) {
  const uint32_t count = best_count(recorder.device().plan(), table, ranges);
  require(stride >= count, "project", "the candidates of two tokens overlap");
  require_bytes(candidates, (uint64_t{tokens - 1} * stride + count) * sizeof(abi::Candidate), "project", "candidates");
  record(recorder, table, x, candidates, stride, tokens, true, ranges);
}

}  // namespace weft::ops
