// Products with a model's matrices, and the gather of rows from its vocabulary table.
#include "microbench/bench.h"
#include "microbench/shapes.h"

namespace weft::microbench {
namespace {

// q8 rounds a weight of at most 1 by at most 1 / 254, q4 by 1 / 15 or so; errors of a row add like a random walk. Six
// deviations.
double tolerance(Format format, uint32_t cols) {
  return 6 * std::sqrt(static_cast<double>(cols)) / (format == Format::q4 ? 15 : 254);
}

Expected some_rows(const Copies& m, const std::vector<float>& x, uint32_t tokens, uint32_t out_stride) {
  Expected want;
  const uint32_t rows = m.matrices[0].rows;
  for (uint32_t token = 0; token < tokens; ++token)
    for (const uint32_t row : {0u, rows / 3, rows - 1})
      want.emplace_back(uint64_t{token} * out_stride + row, m.dot(row, x, uint64_t{token} * stride_of(m.cols)));
  return want;
}

void project(benchmark::State& state, Format format, uint32_t rows, uint32_t cols) {
  if (!fits(state, Copies::bytes(format, rows, cols, Layout::planes))) return;
  const Copies m(format, rows, cols, Layout::planes);
  const std::vector<float> x = inputs(1, cols);
  std::vector<float> rotated(m.matrices[0].basis->cols());
  m.matrices[0].basis->rotate_state(std::span(x).first(cols), rotated);
  rotated.resize(stride_of(cols));
  const Buffer in = upload(rotated), logits = floats(rows);
  const Record record = [&](Recorder& r, size_t copy) { ops::project(r, m.matrices[copy], in, logits, 1); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  if (!verify(state, download_as<float>(bench().device, logits), some_rows(m, x, 1, rows), tolerance(format, cols)))
    return;
  time_on_device(state, record, m.matrices.size(), static_cast<double>(m.matrices[0].bytes()), double(rows) * cols);
}

void matmul(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, uint32_t tokens) {
  if (!fits(state, Copies::bytes(format, rows, cols, Layout::values))) return;
  const Copies m(format, rows, cols, Layout::values);
  const std::vector<float> x = inputs(tokens, cols);
  const Buffer in = upload(x), step = make_state(0, tokens), out = floats(uint64_t{tokens} * stride_of(rows));
  const Buffer halves = floats(uint64_t{tokens} * ops::halves_stride(cols));
  ops::Input input = in;
  input.halves = halves;
  const Record record = [&](Recorder& r, size_t copy) {
    ops::matmul(r, m.matrices[copy], step, input, out, tokens, ops::Output::write);
  };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  const Expected want = some_rows(m, x, tokens, stride_of(rows));
  if (!verify(state, download_as<float>(bench().device, out), want, tolerance(format, cols))) return;
  time_on_device(state, record, m.matrices.size(), static_cast<double>(m.matrices[0].bytes()),
                 double(rows) * cols * tokens);
}

// A row of the table in its basis.
std::vector<float> rotated_row(const Copies& m, uint32_t row) {
  const Basis& basis = *m.matrices[0].basis;
  std::vector<float> values(m.cols), rotated(basis.cols());
  for (uint32_t col = 0; col < m.cols; ++col) values[col] = m.value(row, col);
  basis.rotate_row(values, rotated);
  return rotated;
}

// Half a step of the last block's numbers, which are a few times 1 at most.
double gather_tolerance(Format format) {
  return format == Format::q4 ? 4.0 / 16 : format == Format::q8 ? 4.0 / 256 : 4.0 / 65536;
}

void gather(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, uint32_t tokens) {
  if (!fits(state, Copies::bytes(format, rows, cols, Layout::planes))) return;
  const Copies m(format, rows, cols, Layout::planes);
  const Buffer step = make_state(0, tokens), out = floats(uint64_t{tokens} * stride_of(cols));
  const Buffer history(bench().device, "history", tokens * 4, Memory::shared);
  for (uint32_t t = 0; t < tokens; ++t) history.as<uint32_t>()[t] = (t * 7919 + 11) % rows;
  const Record record = [&](Recorder& r, size_t copy) { ops::gather(r, m.matrices[copy], step, history, out, tokens); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (uint32_t t = 0; t < tokens; ++t)
    want.emplace_back(uint64_t{t} * stride_of(cols) + cols - 1, rotated_row(m, history.as<uint32_t>()[t])[cols - 1]);
  if (!verify(state, download_as<float>(bench().device, out), want, gather_tolerance(format))) return;
  time_on_device(state, record, m.matrices.size(), double(tokens) * static_cast<double>(m.matrices[0].bytes()) / rows,
                 0);
}

}  // namespace

void register_products(const ModelShape& shape) {
  const struct {
    const char* name;
    uint32_t rows, cols;
  } matrices[] = {{"qkv", shape.qkv(), shape.width},
                  {"out", shape.width, shape.q()},
                  {"gate_up", 2 * shape.ffn, shape.width},
                  {"down", shape.width, shape.ffn}};
  const std::string model = std::string("/") + shape.name;
  const uint32_t vocab = shape.vocab, width = shape.width;
  for (const Format format : kFormats) {
    const std::string type = std::string("/") + name(format);
    add("project" + model + type, [=](benchmark::State& state) { project(state, format, vocab, width); });
    for (const auto& matrix : matrices)
      for (const uint32_t tokens : {1u, 64u})
        add("matmul" + model + type + "/" + matrix.name + "/tokens:" + std::to_string(tokens),
            [=](benchmark::State& state) { matmul(state, format, matrix.rows, matrix.cols, tokens); });
    for (const uint32_t tokens : {1u, 64u})
      add("gather" + model + type + "/tokens:" + std::to_string(tokens),
          [=](benchmark::State& state) { gather(state, format, vocab, width, tokens); });
  }
}

}  // namespace weft::microbench
