// Attention of a layer without its products: head norms, RoPE with the write to the cache, and attention over contexts
// of many lengths.
#include <algorithm>
#include <deque>

#include "microbench/bench.h"
#include "microbench/shapes.h"

namespace weft::microbench {
namespace {

using ops::HeadShape;

constexpr uint32_t kPeriod = 64;  // the cache's positions repeat after so many

uint32_t columns(const HeadShape& h) { return (h.heads + 2 * h.kv_heads) * h.head_dim; }

// A layer's cache.
struct Cache {
  Cache(const HeadShape& heads, uint32_t context, Format format) {
    const uint32_t capacity = (context + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    keys = Buffer(bench().device, "keys", ops::key_bytes(heads, capacity, format), Memory::device);
    values = Buffer(bench().device, "values", ops::value_bytes(heads, capacity, format), Memory::device);
    const uint64_t bytes = ops::part_bytes(bench().device->plan(), heads, capacity, kPeriod);
    parts = Buffer(bench().device, "parts", std::max<uint64_t>(bytes, 4), Memory::device);
    run_once(bench().device, "clear parts", [&](Recorder& recorder) { recorder.fill(parts, 0); });
    view = {keys, values, capacity, format, parts};
  }
  Buffer keys, values, parts;
  ops::CacheView view;
};

// The cosine and sine of each pair's angle, by position.
std::vector<float> turns(uint32_t context, uint32_t pairs, bool turn) {
  std::vector<float> table;
  for (uint32_t position = 0; position < context; ++position)
    for (uint32_t pair = 0; pair < pairs; ++pair) {
      const double angle = turn ? position * std::pow(10000.0, -double(pair) / pairs) : 0.0;
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

void norm_heads(benchmark::State& state, HeadShape heads, uint32_t tokens) {
  const std::vector<float> x = inputs(tokens, columns(heads)), weight = numbers(2 * heads.head_dim);
  const Buffer qkv = upload(x), scale = upload(weight), step = make_state(0, tokens);
  const Record record = [&](Recorder& r, size_t) { ops::norm_heads(r, heads, step, scale, qkv, 1e-6f, tokens); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  double squares = 0;
  for (uint32_t i = 0; i < heads.head_dim; ++i) squares += double{x[i]} * x[i];
  const double want = x[1] / std::sqrt(squares / heads.head_dim + 1e-6) * weight[1];
  if (!verify(state, download_as<float>(bench().device, qkv), {{1, want}}, 1e-5)) return;
  time_on_device(state, record, 1, 2.0 * tokens * (heads.heads + heads.kv_heads) * heads.head_dim * 4, 0);
}

void rope(benchmark::State& state, HeadShape heads, uint32_t tokens) {
  constexpr uint32_t kContext = 2048;
  const uint32_t pairs = heads.head_dim / 2, first = kContext - tokens, last = heads.heads - 1;
  const std::vector<float> x = inputs(tokens, columns(heads)), angles = turns(kContext, pairs, true);
  const Buffer qkv = upload(x), table = upload(angles), step = make_state(first, tokens);
  const uint32_t stride = stride_of(heads.heads * heads.head_dim);
  const Buffer q = floats(uint64_t{tokens} * stride);
  const Cache cache(heads, kContext, Format::f16);
  const Record record = [&](Recorder& r, size_t) {
    ops::rope(r, heads, ops::Pairs::halves, heads.head_dim, step, qkv, table, q, cache.view, tokens);
  };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (uint32_t t = 0; t < tokens; ++t) {
    const uint64_t place = uint64_t{last} * heads.head_dim + 1, from = uint64_t{t} * stride_of(columns(heads)) + place;
    const float* const turn = &angles[(uint64_t{first + t} * pairs + 1) * 2];
    want.emplace_back(uint64_t{t} * stride + place, double{x[from]} * turn[0] - double{x[from + pairs]} * turn[1]);
  }
  if (!verify(state, download_as<float>(bench().device, q), want, 1e-5)) return;
  // Reads q, k and v, writes q as floats, k and v as f16.
  time_on_device(state, record, 1, double(tokens) * heads.head_dim * (heads.heads * 8.0 + heads.kv_heads * 12.0), 0);
}

// A head's result for a token that sees `seen` positions, whose keys and values repeat.
double attended(const HeadShape& h, const std::vector<float>& qkv, const float* query, uint32_t head, uint32_t seen,
                float scale, uint32_t dim) {
  const uint32_t kv = head / (h.heads / h.kv_heads), stride = stride_of(columns(h));
  double weights[kPeriod] = {}, sum = 0, result = 0;
  for (uint32_t p = 0; p < kPeriod; ++p) {
    const float* const key = &qkv[uint64_t{p} * stride + uint64_t{h.heads + kv} * h.head_dim];
    double score = 0;
    for (uint32_t i = 0; i < h.head_dim; ++i) score += double{query[i]} * key[i];
    const uint32_t times = seen / kPeriod + (p < seen % kPeriod ? 1 : 0);
    weights[p] = times * std::exp(score * scale);  // small numbers: nothing can overflow
    sum += weights[p];
  }
  for (uint32_t p = 0; p < kPeriod; ++p)
    result += weights[p] / sum * qkv[uint64_t{p} * stride + uint64_t{h.heads + h.kv_heads + kv} * h.head_dim + dim];
  return result;
}

// tokens that see up to `context` positions.
void attend(benchmark::State& state, HeadShape heads, uint32_t context, uint32_t tokens, Format format) {
  const double bytes =
      static_cast<double>(ops::key_bytes(heads, context, format) + ops::value_bytes(heads, context, format));
  const size_t copies = copies_past_caches(static_cast<uint64_t>(bytes));
  if (!fits(state, static_cast<uint64_t>(bytes * double(copies)))) return;
  const float scale = 1 / std::sqrt(static_cast<float>(heads.head_dim));
  const uint32_t stride = stride_of(heads.heads * heads.head_dim), last = heads.heads - 1;
  const std::vector<float> x = inputs(kPeriod, columns(heads)), queries = inputs(tokens, heads.heads * heads.head_dim);
  const Buffer qkv = upload(x), table = upload(turns(context, heads.head_dim / 2, false)), q = upload(queries);
  const Buffer y = floats(uint64_t{tokens} * stride), turned = floats(uint64_t{kPeriod} * stride);
  std::deque<Cache> caches;  // views point into them
  for (size_t i = 0; i < copies; ++i) caches.emplace_back(heads, context, format);
  for (uint32_t first = 0; first < context; first += kPeriod) {
    const Buffer step = make_state(first, kPeriod);
    run_once(bench().device, "fill", [&](Recorder& r) {
      ops::rope(r, heads, ops::Pairs::halves, heads.head_dim, step, qkv, table, turned, caches[0].view, kPeriod);
    });
  }
  run_once(bench().device, "copies", [&](Recorder& r) {
    for (size_t i = 1; i < copies; ++i)
      r.copy(caches[0].keys, caches[i].keys), r.copy(caches[0].values, caches[i].values);
  });
  const Buffer step = make_state(context - tokens, tokens);
  const Record record = [&](Recorder& r, size_t copy) {
    ops::attend(r, heads, {scale}, step, q, caches[copy].view, y, tokens);
  };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (const uint32_t t : {0u, tokens - 1})
    for (const uint32_t head : {0u, last})
      want.emplace_back(uint64_t{t} * stride + head * heads.head_dim + 1,
                        attended(heads, x, &queries[uint64_t{t} * stride + head * heads.head_dim], head,
                                 context - tokens + t + 1, scale, 1));
  if (!verify(state, download_as<float>(bench().device, y), want, format == Format::q8 ? 1e-2 : 1e-3)) return;
  time_on_device(state, record, copies, bytes, 2.0 * heads.heads * heads.head_dim * tokens * (context - tokens / 2.0));
}

}  // namespace

void register_attention(const ModelShape& shape) {
  const std::string model = std::string("/") + shape.name;
  const HeadShape heads = shape.heads;
  const uint32_t longest = bench().device->caps().kind == DeviceKind::cpu ? 2048 : 8192;
  for (const uint32_t tokens : {1u, 64u}) {
    const std::string suffix = "/tokens:" + std::to_string(tokens);
    if (shape.norm_heads)
      add("norm_heads" + model + suffix, [=](benchmark::State& state) { norm_heads(state, heads, tokens); });
    add("rope" + model + suffix, [=](benchmark::State& state) { rope(state, heads, tokens); });
    for (const Format format : {Format::f16, Format::q8})
      for (const uint32_t context : {128u, 2048u, 8192u, 32768u}) {
        if (tokens > 1 && (context > longest || format == Format::q8))
          continue;  // they show nothing new, and take long
        add("attend" + model + "/" + name(format) + "/context:" + std::to_string(context) + suffix,
            [=](benchmark::State& state) { attend(state, heads, context, tokens, format); });
      }
  }
}

}  // namespace weft::microbench
