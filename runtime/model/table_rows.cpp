#include "model/table_rows.h"

#include <algorithm>
#include <cstring>

#include "gpu/upload.h"
#include "ops/ops.h"

namespace weft {
namespace {

constexpr size_t kRows = 512;  // at once

}  // namespace

std::vector<float> table_rows(const Model& model, const Table& table, std::span<const uint32_t> ids, float scale) {
  model.weights.need_all_rows("rows of the table");
  const Matrix& matrix = table.matrix();
  const bool turned = matrix.layout == Layout::planes;
  const uint32_t width = model.config.width, stride = stride_of(width);
  const uint32_t count = static_cast<uint32_t>(std::min(ids.size(), kRows));
  std::vector<float> rows(ids.size() * width);
  if (ids.empty()) return rows;
  const Buffer state(model.device, "rows' state", sizeof(abi::StepState), Memory::shared);
  const Buffer history(model.device, "rows' ids", uint64_t{count} * 4, Memory::shared);
  const Buffer x(model.device, "rows", uint64_t{count} * stride * 4, Memory::readback);
  const Buffer rotated = turned ? Buffer(model.device, "turned rows", x.bytes(), Memory::device) : Buffer();
  for (size_t first = 0; first < ids.size(); first += count) {
    const std::span<const uint32_t> some = ids.subspan(first, std::min<size_t>(count, ids.size() - first));
    const uint32_t tokens = static_cast<uint32_t>(some.size());
    abi::StepState step = {};
    step.end = tokens;
    std::memcpy(state.data(), &step, sizeof step);
    std::memcpy(history.data(), some.data(), some.size_bytes());
    run_once(model.device, "rows", [&](Recorder& r) {
      ops::gather(r, matrix, state, history, turned ? View(rotated) : View(x), tokens, scale);
      if (turned) ops::rotate_back(r, matrix, rotated, x, tokens);
    });
    for (uint32_t i = 0; i < tokens; ++i)
      std::copy_n(x.as<float>() + size_t{i} * stride, width,
                  rows.begin() + static_cast<ptrdiff_t>((first + i) * width));
  }
  return rows;
}

void table_dots(const Model& model, std::span<const float> vectors, float* dots) {
  model.weights.need_all_rows("rows of the table");
  const Matrix& table = model.weights.output_table().matrix();
  const uint32_t width = model.config.width, stride = stride_of(width), vocab = model.config.vocab,
                 rows = model.device->plan().block_tokens;
  const size_t count = vectors.size() / width;
  const Buffer x(model.device, "vectors", uint64_t{rows} * stride * 4, Memory::shared);
  const Buffer rotated(model.device, "turned vectors", x.bytes(), Memory::device);
  const Buffer y(model.device, "products", uint64_t{rows} * stride_of(vocab) * 4, Memory::readback);
  std::memset(x.data(), 0, x.bytes());
  // The products read the padding after a row's columns.
  run_once(model.device, "clear the vectors", [&](Recorder& r) { r.fill(rotated, 0); });
  for (size_t first = 0; first < count; first += rows) {
    const size_t some = std::min<size_t>(rows, count - first);
    for (size_t i = 0; i < some; ++i) std::copy_n(&vectors[(first + i) * width], width, x.as<float>() + i * stride);
    run_once(model.device, "products", [&](Recorder& r) {
      ops::rotate(r, table, x, rotated, rows);
      ops::project(r, table, rotated, y, rows);
    });
    for (size_t i = 0; i < some; ++i)
      std::copy_n(y.as<float>() + i * stride_of(vocab), vocab, dots + (first + i) * vocab);
  }
}

}  // namespace weft
