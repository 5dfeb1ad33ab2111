#include "ops/known_answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <vector>

#include "base/error.h"
#include "gpu/upload.h"
#include "ops/ops.h"

#include "all.spv.h"

namespace weft {
namespace {

// Raised when the checks change: results kept of older ones say nothing of the new.
constexpr uint64_t kVersion = 5;

constexpr uint32_t kRows = 128, kCols = 256, kTokens = 64;
constexpr ops::HeadShape kHeads = {4, 2, 64};
constexpr uint32_t kPrompt = 96, kCapacity = 256;  // of attention: tokens, positions of the cache

using Values = std::vector<double>;

struct Check {
  std::string name;
  std::function<void(Recorder&)> record;
  View output;
  uint32_t stride;   // floats from one row of the output to the next
  uint32_t columns;  // of a row
  Values want;       // rows of `columns`
  double tolerance;
};

// A whole number from `least` to `most` by `index`, the same on every machine.
int number(uint64_t index, int least, int most) {
  const uint32_t mixed = static_cast<uint32_t>(index * 2654435761u + 12345u);
  return least + static_cast<int>(uint64_t{mixed ^ mixed >> 15} % static_cast<uint64_t>(most - least + 1));
}

// Weights that the format stores exactly: every block has the least and the greatest of its numbers, so that its scale
// is a power of two.
std::vector<float> exact_weights(Format format) {
  const auto [least, most, unit] = format == Format::q4 ? std::tuple{-8, 7, 0.125f} : std::tuple{-127, 127, 0.0078125f};
  std::vector<float> values(size_t{kRows} * kCols);
  for (size_t i = 0; i < values.size(); ++i) {
    const int whole = i % BLOCK == 0 ? least : i % BLOCK == 1 ? most : number(i, least, most);
    values[i] = static_cast<float>(whole) * unit;
  }
  return values;
}

// Where a block's halves are that scale all its numbers.
std::array<size_t, 2> places_of_scales(DType type) {
  if (type == DType::q6_k) return {208, 208};
  if (type == DType::q3_k) return {108, 108};
  if (type == DType::q2_k) return {80, 82};
  const bool two = type == DType::q4_k || type == DType::q5_k || type == DType::q5_1;
  return {0, two ? 2u : 0u};
}

// Blocks of a native format whose numbers are small multiples of 2^-10.
std::vector<std::byte> exact_blocks(Format format) {
  const DType type = file_type(format);
  std::vector<std::byte> bytes(bytes_for(type, std::vector<uint64_t>{kRows, kCols}));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number(i, 0, 255));
  const uint16_t unit = float_to_half(0x1p-10f);
  if (type == DType::mxfp4) {
    for (size_t block = 0; block < bytes.size(); block += block_bytes(type)) bytes[block] = std::byte{117};
    return bytes;
  }
  for (size_t block = 0; block < bytes.size(); block += block_bytes(type))
    for (const size_t place : places_of_scales(type)) std::memcpy(&bytes[block + place], &unit, sizeof unit);
  return bytes;
}

Values products(const std::vector<float>& weights, const std::vector<float>& x, uint32_t tokens) {
  Values y;
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (uint32_t col = 0; col < kCols; ++col) sum += double{weights[row * kCols + col]} * x[t * kCols + col];
      y.push_back(sum);
    }
  return y;
}

double largest(const Values& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

class Checks {
 public:
  explicit Checks(const std::shared_ptr<Device>& device) : device_(device), uploader_(device) {
    for (const Format format : kAllFormats)
      for (const uint32_t tokens : {1u, kTokens}) add_product(format, tokens);
    for (const Format format : {Format::q8, Format::q4}) add_table(format);
    add_norm();
    for (const ops::CacheFormat& cache : {ops::CacheFormat(Format::f16), ops::CacheFormat(Format::q8),
                                          ops::CacheFormat(Format::q8, Format::q4), ops::CacheFormat(Format::q4)})
      add_attention(cache);
  }
  const std::vector<Check>& all() const { return checks_; }

 private:
  View make(uint64_t bytes, Memory memory = Memory::device) {
    return buffers_.emplace_back(device_, "known answers", bytes, memory);
  }
  template <class T>
  View make(const std::vector<T>& values) {
    const View view = make(values.size() * sizeof(T));
    uploader_.upload(view, std::span<const T>(values));
    return view;
  }
  // Full of NaNs, so that a kernel that writes nothing does not find an older answer.
  View make_output(uint32_t tokens, uint32_t cols) {
    return make(std::vector<float>(size_t{tokens} * stride_of(cols), std::numeric_limits<float>::quiet_NaN()));
  }
  View make_state(uint32_t pos, uint32_t tokens) {
    const View view = make(sizeof(abi::StepState), Memory::shared);
    *view.buffer->as<abi::StepState>() = {pos, pos + tokens, 0, kCapacity, 0, 0, 0, 0, {}};
    return view;
  }
  Matrix make_matrix(Format format, Layout layout, const std::vector<float>& weights) {
    const TensorView tensor = {"weights", DType::f32, {kRows, kCols}, std::as_bytes(std::span<const float>(weights))};
    return make_matrix(format, layout, tensor);
  }
  Matrix make_matrix(Format format, Layout layout, const TensorView& tensor) {
    const TensorView* const part = &tensor;
    Matrix matrix = {format, kRows, kCols, {}, layout};
    if (layout == Layout::planes) {
      matrix.basis = std::make_shared<Basis>(kCols);
      matrix.basis_words = make(matrix.basis->words());
    }
    matrix.view = make(matrix.bytes());
    uploader_.upload(matrix.view, matrix.tile_bytes(), [&](uint64_t offset, std::span<std::byte> out) {
      pack_tiles(matrix, {&part, 1}, static_cast<uint32_t>(offset / matrix.tile_bytes()), out);
    });
    return matrix;
  }

  std::vector<float> inputs(uint32_t tokens) const {
    std::vector<float> x(size_t{tokens} * kCols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(number(i + 99, -4, 4));
    return x;
  }

  // All numbers are small and whole, so any order of sums gives the same; only rounded inputs come near.
  void add_product(Format format, uint32_t tokens) {
    std::vector<float> weights;
    Matrix matrix;
    if (is_native(format)) {
      const std::vector<std::byte> blocks = exact_blocks(format);
      const TensorView tensor = {"weights", file_type(format), {kRows, kCols}, blocks};
      weights.resize(size_t{kRows} * kCols);
      to_float(tensor, 0, weights);
      matrix = make_matrix(format, Layout::values, tensor);
    } else {
      weights = exact_weights(format);
      matrix = make_matrix(format, Layout::values, weights);
    }
    const std::vector<float> x = inputs(tokens);
    const View state = make_state(0, tokens), out = make_output(tokens, kRows);
    ops::Input in = make(x);
    in.halves = make_output(tokens, ops::halves_stride(kCols));
    Values want = products(weights, x, tokens);
    const Plan& plan = device_->plan();
    const double tolerance = (plan.int8_inputs || plan.half_tiles ? 0.02 : 1e-4) * largest(want);
    checks_.push_back({std::string("products of ") + (tokens == 1 ? "one token, " : "64 tokens, ") + name(format),
                       [=](Recorder& r) { ops::matmul(r, matrix, state, in, out, tokens, ops::Output::write); }, out,
                       stride_of(kRows), kRows, std::move(want), tolerance});
  }

  // The table's bits are rounded in a basis of its own.
  void add_table(Format format) {
    const std::vector<float> weights = exact_weights(Format::q8), x = inputs(1);
    const Matrix table = make_matrix(format, Layout::planes, weights);
    const View in = make(x), rotated = make_output(1, kCols), out = make_output(1, kRows);
    Values want = products(weights, x, 1);
    const double tolerance = (format == Format::q4 ? 0.2 : 0.02) * largest(want);
    checks_.push_back({std::string("logits, ") + name(format),
                       [=](Recorder& r) {
                         ops::rotate(r, table, in, rotated, 1);
                         ops::project(r, table, rotated, out, 1);
                       },
                       out, stride_of(kRows), kRows, std::move(want), tolerance});
  }

  void add_norm() {
    const std::vector<float> x = inputs(3);
    std::vector<float> weight(kCols);
    for (uint32_t i = 0; i < kCols; ++i) weight[i] = static_cast<float>(number(i, 1, 9)) * 0.25f;
    Values want;
    for (uint32_t t = 0; t < 3; ++t) {
      double squares = 0;
      for (uint32_t i = 0; i < kCols; ++i) squares += double{x[t * kCols + i]} * x[t * kCols + i];
      for (uint32_t i = 0; i < kCols; ++i)
        want.push_back(x[t * kCols + i] / std::sqrt(squares / kCols + 1e-5) * weight[i]);
    }
    const double tolerance = 1e-4 * largest(want);
    const View in = make(x), weights = make(weight), state = make_state(0, 3), out = make_output(3, kCols);
    checks_.push_back({"an RMSNorm",
                       [=](Recorder& r) {
                         ops::norm(r, {kCols, 1e-5f}, state, in, weights, out, 3, false);
                       },
                       out, kCols, kCols, std::move(want), tolerance});
  }

  static constexpr uint32_t kQ = kHeads.heads * kHeads.head_dim, kKv = kHeads.kv_heads * kHeads.head_dim,
                            kQkv = kQ + 2 * kKv, kPairs = kHeads.head_dim / 2;
  static double angle(uint32_t position, uint32_t pair) { return position * 0.1 * (pair + 1); }

  // The answer of tokens from `first` on. qkv (kPrompt + 1, kQkv): queries, keys and values before their rotation.
  static Values attention(const std::vector<float>& qkv, uint32_t first, uint32_t tokens) {
    const auto rotated = [&](uint32_t t, uint32_t at, uint32_t i) {
      const double here = qkv[t * kQkv + at + i], a = angle(t, i % kPairs);
      const double other = qkv[t * kQkv + at + (i + kPairs) % kHeads.head_dim];
      return here * std::cos(a) + (i < kPairs ? -other : other) * std::sin(a);
    };
    Values keys;  // (kPrompt + 1, kKv)
    for (uint32_t t = 0; t <= kPrompt; ++t)
      for (uint32_t i = 0; i < kKv; ++i)
        keys.push_back(rotated(t, kQ + i / kHeads.head_dim * kHeads.head_dim, i % kHeads.head_dim));
    Values y;
    for (uint32_t t = first; t < first + tokens; ++t)
      for (uint32_t head = 0; head < kHeads.heads; ++head) {
        const uint32_t kv = head / (kHeads.heads / kHeads.kv_heads) * kHeads.head_dim;
        Values sums(kHeads.head_dim), query;
        for (uint32_t i = 0; i < kHeads.head_dim; ++i) query.push_back(rotated(t, head * kHeads.head_dim, i));
        double all = 0;
        for (uint32_t p = 0; p <= t; ++p) {
          double score = 0;
          for (uint32_t i = 0; i < kHeads.head_dim; ++i) score += query[i] * keys[p * kKv + kv + i];
          const double share = std::exp(score / 8);
          all += share;
          for (uint32_t i = 0; i < kHeads.head_dim; ++i) sums[i] += share * qkv[p * kQkv + kQ + kKv + kv + i];
        }
        for (const double sum : sums) y.push_back(sum / all);
      }
    return y;
  }

  void add_attention(const ops::CacheFormat& format) {
    std::vector<float> qkv(size_t{kPrompt + 1} * kQkv), table;
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(number(i + 7, -8, 8)) * 0.125f;
    for (uint32_t p = 0; p < kCapacity; ++p)
      for (uint32_t pair = 0; pair < kPairs; ++pair) {
        table.push_back(static_cast<float>(std::cos(angle(p, pair))));
        table.push_back(static_cast<float>(std::sin(angle(p, pair))));
      }
    const Plan& plan = device_->plan();
    const View keys = make(ops::key_bytes(kHeads, kCapacity, format.keys)),
               values = make(ops::value_bytes(kHeads, kCapacity, format.values)), ropes = make(table),
               parts = make(std::max({ops::part_bytes(plan, kHeads, kCapacity, 1),
                                      ops::part_bytes(plan, kHeads, kCapacity, kPrompt), uint64_t{4}}));
    run_once(device_, "known answers", [&](Recorder& r) { r.fill(parts, 0), r.fill(keys, 0), r.fill(values, 0); });
    struct Tokens {
      View in, state, q, out;
    };
    const auto tokens_of = [&](uint32_t first, uint32_t tokens) -> Tokens {
      const std::vector<float> rows(qkv.begin() + first * kQkv, qkv.begin() + (first + tokens) * kQkv);
      return {make(rows), make_state(first, tokens), make_output(tokens, kQ), make_output(tokens, kQ)};
    };
    const Tokens prompt = tokens_of(0, kPrompt), last = tokens_of(kPrompt, 1);
    const ops::CacheView cache = {keys, values, kCapacity, format, parts};
    const ops::FusedRope rope = {ops::Pairs::halves, kHeads.head_dim, ropes};
    const auto rotate = [=](Recorder& r, const Tokens& of, uint32_t tokens) {
      ops::rope(r, kHeads, rope.pairs, rope.rotary_dim, of.state, of.in, ropes, of.q, cache, tokens);
    };
    const ops::Attention scaled = {0.125f};
    const double tolerance = format == Format::f16 ? 0.01 : format == Format::q8 ? 0.05 : 0.15;  // one of q4: the last
    checks_.push_back({"attention of a prompt, " + ops::name(format),
                       [=](Recorder& r) {
                         rotate(r, prompt, kPrompt);
                         ops::attend(r, kHeads, scaled, prompt.state, prompt.q, cache, prompt.out, kPrompt);
                       },
                       prompt.out, kQ, kQ, attention(qkv, 0, kPrompt), tolerance});
    checks_.push_back({"attention of one token, " + ops::name(format),
                       [=](Recorder& r) {
                         rotate(r, prompt, kPrompt);  // fills the cache
                         const bool fused = ops::can_fuse_rope(r.device().plan(), kHeads, scaled, rope, format, 1);
                         if (!fused) rotate(r, last, 1);
                         ops::attend(r, kHeads, scaled, last.state, fused ? last.in : last.q, cache, last.out, 1,
                                     fused ? &rope : nullptr);
                       },
                       last.out, kQ, kQ, attention(qkv, kPrompt, 1), tolerance});
  }

  std::shared_ptr<Device> device_;
  Uploader uploader_;
  std::deque<Buffer> buffers_;
  std::vector<Check> checks_;
};

// Names the first wrong result of a check; "": all are right.
std::string judge(const Check& check, const std::vector<float>& got) {
  for (size_t i = 0; i < check.want.size(); ++i) {
    const double value = got[i / check.columns * check.stride + i % check.columns];
    if (std::abs(value - check.want[i]) <= check.tolerance) continue;  // false for a NaN
    return std::to_string(value) + " instead of " + std::to_string(check.want[i]);
  }
  return {};
}

std::string run(const std::shared_ptr<Device>& device, const Check& check) {
  try {
    run_once(device, "known answers", check.record);
    return judge(check, download_as<float>(device, check.output));
  } catch (const Error& error) {  // drivers also say that they have no memory where they cannot compile
    return error.sentence();
  }
}

// Compiles kernels side by side. An error is left to run(), which meets it again.
void compile_all(const std::shared_ptr<Device>& device, const std::vector<Check>& checks) {
  Recorder compiling(*device);
  for (const Check& check : checks) {
    try {
      check.record(compiling);
    } catch (const Error&) {
    }
  }
}

}  // namespace

std::optional<Fault> find_fault(const std::shared_ptr<Device>& device, size_t first) {
  const Checks checks(device);
  const auto fault_of = [&](size_t i) -> std::optional<Fault> {
    const std::string wrong = run(device, checks.all()[i]);
    return wrong.empty() ? std::nullopt : std::optional(Fault{i, checks.all()[i].name + ": " + wrong});
  };
  if (first > 0)
    if (auto fault = fault_of(first)) return fault;
  compile_all(device, checks.all());
  for (size_t i = 0; i < checks.all().size(); ++i)
    if (auto fault = fault_of(i)) return fault;
  return std::nullopt;
}

uint64_t known_answers_id() {
  static const uint64_t id = [] {
    uint64_t hash = 14695981039346656037ull ^ kVersion;  // FNV-1a, 64 bits, as pipeline_cache.cpp has it
    for (const Shader* const shader : shaders::all)
      for (const uint8_t byte : shader->code) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
  }();
  return id;
}

}  // namespace weft
