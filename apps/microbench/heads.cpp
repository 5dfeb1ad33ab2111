// Projections of a part of the vocabulary table, beside the whole one.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "microbench/bench.h"
#include "microbench/shapes.h"
#include "vocab/heads/pruned.h"
#include "vocab/heads/vocab_head.h"

namespace weft::microbench {
namespace {

// Nearly normal, mean 0 and variance 1, the same at every run; indices next to each other have nothing in common.
float normal(uint64_t index) {
  float sum = 0;
  for (uint64_t part = 0; part < 4; ++part) {
    uint64_t bits = (index * 4 + part) * 0x9e3779b97f4a7c15u;  // Steele, Lea and Flood 2014, splitmix64
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    sum += static_cast<float>(bits >> 40) * 0x1p-24f - 0.5f;
  }
  return sum * 1.7320508f;
}

// A table of a model's shape, and all that its heads need. Made once, because it is large.
struct Head {
  Head(Format format, uint32_t rows, uint32_t cols) : values(uint64_t{rows} * cols), shape{rows, cols} {
    for (uint64_t i = 0; i < values.size(); ++i) values[i] = 0.05f * normal(i);
    const TensorView tensor = {"table", DType::f32, {rows, cols}, std::as_bytes(std::span<const float>(values))};
    Uploader uploader(device);
    table = std::make_unique<Table>(device, uploader, std::span(&tensor, 1), format, std::make_shared<Basis>(cols),
                                    "table", [](uint64_t) {});
    buffers = std::make_unique<PartialHeadBuffers>(device, *table);
    state = Buffer(device, "state", sizeof(abi::StepState), Memory::shared);
    params = Buffer(device, "params", sizeof(abi::SampleParams), Memory::shared);
    token_flags = Buffer(device, "token flags", uint64_t{TOKEN_FLAG_WORDS(rows)} * 4, Memory::shared);
    logits = Buffer(device, "logits", uint64_t{rows} * 4, Memory::device);
    std::memset(state.data(), 0, state.bytes());
    std::memset(params.data(), 0, params.bytes());
    std::memset(token_flags.data(), 0, token_flags.bytes());
    params.as<abi::SampleParams>()->cut_rank = 1;  // greedy
    params.as<abi::SampleParams>()->repeat_penalty = 1;
    state.as<abi::StepState>()->head.positions = rows;
  }

  // Returns a state whose root mean square is 1 and whose cosine with row `target` is as given.
  std::vector<float> hidden(double cosine, uint32_t target) const {
    std::vector<float> x(stride_of(shape.cols), 0.0f);
    const float* row = &values[uint64_t{target} * shape.cols];
    double along = 0, length = 0, across = 0;
    for (uint32_t i = 0; i < shape.cols; ++i) {
      x[i] = normal(0x100000000u + i);
      along += double{x[i]} * row[i];
      length += double{row[i]} * row[i];
    }
    for (uint32_t i = 0; i < shape.cols; ++i) {
      x[i] -= static_cast<float>(along / length * row[i]);
      across += double{x[i]} * x[i];
    }
    const double size = std::sqrt(static_cast<double>(shape.cols));
    for (uint32_t i = 0; i < shape.cols; ++i)
      x[i] = static_cast<float>(
          size * (x[i] / std::sqrt(across) * std::sqrt(1 - cosine * cosine) + row[i] / std::sqrt(length) * cosine));
    return x;
  }

  std::shared_ptr<Device> device = bench().device;
  std::vector<float> values;
  struct {
    uint32_t rows, cols;
  } shape;
  std::unique_ptr<Table> table;
  std::unique_ptr<PartialHeadBuffers> buffers;
  Buffer state, params, token_flags, logits;
};

Head& head_of(Format format, uint32_t rows, uint32_t cols) {
  static std::unique_ptr<Head> last;
  static Format last_format;
  if (!last || last_format != format || last->shape.rows != rows || last->shape.cols != cols) {
    last.reset();
    last = std::make_unique<Head>(format, rows, cols);
    last_format = format;
  }
  return *last;
}

// The values after the table are kept on the CPU as floats.
bool has_values(benchmark::State& state, uint32_t rows, uint32_t cols) {
  constexpr double kMost = 0x1p30;
  const double bytes = 4.0 * rows * cols;
  if (bytes > kMost) {
    char text[120];
    std::snprintf(text, sizeof text, "skipped: its table takes %.1f GiB of the CPU's memory, more than 1",
                  bytes / 0x1p30);
    state.SkipWithError(text);
  }
  return bytes <= kMost && fits(state, static_cast<uint64_t>(bytes));
}

void full(benchmark::State& state, Format format, uint32_t rows, uint32_t cols) {
  Head& head = head_of(format, rows, cols);
  const Buffer x = upload(head.hidden(0.3, rows / 3));
  time_on_device(
      state, [&](Recorder& r, size_t) { ops::project(r, head.table->matrix(), x, head.logits, 1); }, 1,
      static_cast<double>(head.table->buffer().bytes()), double(rows) * cols);
}

struct Partial {
  const char* name;
  uint32_t least_mode;
  double leading_spread, rest_spread;  // times the square root of the rest's columns
};
constexpr Partial kPartial[] = {
    {"certified", HEAD_TWO_BITS, 1e9, 1e9}, {"sure", HEAD_SIGNS, 1e9, 7}, {"fast", HEAD_LEADING, 5, 5}};

// A head where one row stands out by its cosine with the hidden state, or none does (0).
void partial(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, double cosine, const Partial& kind) {
  Head& head = head_of(format, rows, cols);
  const double dimensions = std::max(head.table->matrix().basis->rest() * 32.0, 1.0);
  abi::SampleParams& params = *head.params.as<abi::SampleParams>();
  params.least_mode = kind.least_mode;
  params.leading_spread = static_cast<float>(std::min(kind.leading_spread / std::sqrt(dimensions), 1.0));
  params.rest_spread = static_cast<float>(std::min(kind.rest_spread / std::sqrt(dimensions), 1.0));
  const uint32_t target = rows / 3;
  const Buffer x = upload(head.hidden(cosine, target));
  const PartialHeadViews views = {x, head.state, head.params, head.token_flags};
  const auto record = [&](Recorder& r, size_t) {
    project_partly(r, *head.table, {.estimates = true}, *head.buffers, views, head.logits);
  };
  // The best row must be listed, with the full projection's logit.
  run_once(head.device, "full", [&](Recorder& r) { ops::project(r, head.table->matrix(), x, head.logits, 1); });
  const std::vector<float> all = download_as<float>(head.device, head.logits);
  const uint32_t best = static_cast<uint32_t>(std::max_element(all.begin(), all.end()) - all.begin());
  head.state.as<abi::StepState>()->head.mode = kind.least_mode;
  for (int i = 0; i < 12; ++i) run_once(head.device, "settle", [&](Recorder& r) { record(r, 0); });
  const std::vector<float> listed = download_as<float>(head.device, head.logits);
  const std::vector<uint32_t> lists = download_as<uint32_t>(head.device, head.buffers->lists);
  const abi::HeadState& counts = head.state.as<abi::StepState>()->head;
  bool found = false;
  for (uint32_t i = 0; i < counts.exact_count; ++i)
    found |= lists[LIST_IDS(rows) + i] == best && listed[i] == all[best];
  if (!found && kind.least_mode != HEAD_LEADING)
    return state.SkipWithError("wrong result: the best row is not listed with its logit");
  time_on_device(state, record, 1, 0, double(rows) * cols);
  state.counters["mode"] = counts.mode;
  state.counters["rows"] = counts.exact_count;
  state.counters["refined"] = counts.mode < ESTIMATES ? counts.refine_counts[counts.mode] : 0;
  state.counters["of_table"] = RowsRead{counts.mode,
                                        rows,
                                        {counts.refine_counts[0], counts.refine_counts[1], counts.refine_counts[2]},
                                        counts.exact_count + counts.leader_count}
                                   .bytes(head.table->matrix()) /
                               static_cast<double>(head.table->buffer().bytes());
}

// Every step-th row, as a keep-list would have it.
void listed(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, uint32_t step) {
  Head& head = head_of(format, rows, cols);
  const Buffer x = upload(head.hidden(0.3, rows / 3));
  const uint32_t count = (rows + step - 1) / step;
  for (uint32_t i = 0; i < count; ++i) head.buffers->allowed_rows.as<uint32_t>()[i] = i * step;
  head.state.as<abi::StepState>()->head.positions = count;
  const PartialHeadViews views = {x, head.state, head.params, head.token_flags};
  const auto record = [&](Recorder& r, size_t) {
    project_partly(r, *head.table, {.listed = true}, *head.buffers, views, head.logits);
  };
  run_once(head.device, "verify", [&](Recorder& r) { record(r, 0); });
  const uint32_t got = head.state.as<abi::StepState>()->head.exact_count;
  if (got != count) return state.SkipWithError("wrong result: other rows than the listed ones were computed");
  time_on_device(state, record, 1, double(count) * plane_bytes(format, cols).whole, double(count) * cols);
  head.state.as<abi::StepState>()->head.positions = rows;
}

}  // namespace

void register_heads(const ModelShape& shape) {
  const uint32_t rows = shape.vocab, cols = shape.width;
  for (const Format format : kFormats) {
    const auto add_head = [&](const std::string& what, auto function) {
      add(std::string("head/") + shape.name + "/" + name(format) + "/" + what, [=](benchmark::State& state) {
        if (has_values(state, rows, cols)) function(state);
      });
    };
    add_head("full", [=](benchmark::State& s) { full(s, format, rows, cols); });
    for (const Partial& kind : kPartial)
      for (const double cosine : {0.5, 0.3, 0.2, 0.0})
        add_head(std::string(kind.name) + "/cosine:" + std::to_string(cosine).substr(0, 3),
                 [=, &kind](benchmark::State& s) { partial(s, format, rows, cols, cosine, kind); });
    for (const uint32_t step : {8u, 64u})
      add_head("listed/rows:" + std::to_string(rows / step),
               [=](benchmark::State& s) { listed(s, format, rows, cols, step); });
  }
}

}  // namespace weft::microbench
