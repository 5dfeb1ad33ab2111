// Linear attention against its reference: scan_inputs, scan and keep_rows, which a layer runs one after the other, and
// scan_inputs_texel and scan_texel, which llvmpipe runs in place of two of them; on whole texts at once and in passes,
// with tokens that are taken back, and on sessions of a batch.
#include <algorithm>

#include "ops/linear_attention.h"

#include "reference/linear_attention.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ScanTest : public GpuTest {};

constexpr uint32_t kContext = 400;
constexpr double kEpsilon = 1e-6;

constexpr ops::LinearShape kShapes[] = {
    {true, 2, 4, 20, 12, 4, false, false},   // heads share keys
    {true, 2, 6, 33, 47, 3, false, true},    // the same in GGUF's order, odd sizes
    {true, 1, 1, 128, 128, 4, false, true},  // Qwen 3.5's heads
    {true, 1, 2, 200, 5, 1, true, false},
    {false, 1, 3, 128, 64, 4, true, false},  // Granite 4's heads
    {false, 2, 4, 30, 36, 9, false, false},
    {true, 2, 4, 128, 128, 4, false, true},  // scan_texel's on llvmpipe, as the rest
    {true, 2, 4, 64, 20, 4, false, false},
    {false, 1, 4, 96, 36, 4, true, false}};

std::string text_of(const ops::LinearShape& s) {
  return std::string(s.delta ? "delta " : "Mamba-2 ") + std::to_string(s.key_dim) + " x " + std::to_string(s.value_dim);
}

reference::LinearShape reference_shape(const ops::LinearShape& s) {
  return {s.delta, s.key_heads, s.heads, s.key_dim, s.value_dim, s.taps, s.tiled};
}

struct Weights : reference::LinearWeights {
  Weights(const std::shared_ptr<Device>& device, const ops::LinearShape& s, Random& random) {
    kernel = doubles(random.normals(s.conv_cols() * s.taps, 0.7f));
    if (s.biased) bias = doubles(random.normals(s.conv_cols(), 0.3f));
    for (uint32_t head = 0; head < s.heads; ++head) {
      a.push_back(-random.uniform(0.001f, 0.3f));
      dt_bias.push_back(random.normal());
      if (!s.delta) skip.push_back(random.normal());
    }
    std::vector<float> values;
    for (const std::vector<double>* part : {&kernel, &bias, &a, &dt_bias, &skip})
      for (const double value : *part) values.push_back(static_cast<float>(value));
    buffer = upload(device, "weights", values);
  }
  Buffer buffer;
};

reference::Rows some_rows(uint32_t length, uint32_t cols, Random& random) {
  reference::Rows rows(length, cols);
  for (double& value : rows.values) value = static_cast<double>(random.normal());
  return rows;
}

reference::Rows part_of(const reference::Rows& rows, uint32_t first, uint32_t count) {
  reference::Rows part(count, rows.cols);
  std::copy_n(rows.values.begin() + first * rows.cols, count * rows.cols, part.values.begin());
  return part;
}

// Weights of a layer, and the states of one session or of several.
struct Layer {
  Layer(const std::shared_ptr<Device>& gpu, const ops::LinearShape& s, uint32_t sessions, Random& random)
      : device(gpu), shape(s), weights(gpu, s, random) {
    const std::vector<float> states = random.normals(sessions * ops::matrices_bytes(s) / 4);
    matrices = upload(gpu, "matrices", states);
    rows = upload(gpu, "rows", random.normals(sessions * ops::kept_rows_bytes(s) / 4));
  }
  // Projected rows in, results out; (tokens) rows of which the first are computed.
  std::vector<float> run(const reference::Rows& projected, uint32_t tokens, uint32_t pos) const {
    const Activations in = make_activations(device, tokens, projected);
    const Buffer state = make_state(device, pos, pos + projected.rows, kContext);
    const Buffer prepared = poisoned(device, "prepared", uint64_t{tokens} * stride_of(shape.prepared_cols()));
    const Buffer y = poisoned(device, "y", uint64_t{tokens} * stride_of(shape.values()));
    run_op(device, kernels(), [&](Recorder& r) { record(r, state, in.buffer, prepared, {matrices, rows}, y, tokens); });
    return download_as<float>(device, y);
  }
  std::string kernels() const {
    const bool texels = device->plan().texel_products && shape.heads % 2 == 0 && shape.value_dim % 4 == 0;
    return (texels && shape.taps == 4 && shape.key_dim % 4 == 0 && shape.weight_floats() % 4 == 0
                ? "scan_inputs texel"
                : reduction("scan_inputs", device->plan())) +
           (texels && shape.key_dim % 32 == 0 ? ", scan texel" : ", scan") + ", keep_rows";
  }
  void record(Recorder& r, const View& state, const View& projected, const View& prepared, const ops::LinearState& kept,
              const View& y, uint32_t tokens) const {
    ops::scan_inputs(r, shape, state, projected, weights.buffer, kept, prepared, kEpsilon, tokens);
    ops::scan(r, shape, state, prepared, weights.buffer, kept, y, tokens);
    ops::keep_rows(r, shape, state, projected, prepared, kept, tokens);
  }
  std::shared_ptr<Device> device;
  ops::LinearShape shape;
  Weights weights;
  Buffer matrices, rows;
};

// Passes of so many tokens over a text. taken_back: of each pass, so many are computed again in the next one, after
// other tokens were in their place. Returns all results, to the bit.
std::vector<float> check_text(const ops::LinearShape& shape, uint32_t length, uint32_t pass, uint32_t taken_back) {
  SCOPED_TRACE(text_of(shape) + " pass " + std::to_string(pass) + " taken back " + std::to_string(taken_back));
  const auto device = open_device();
  Random random(shape.key_dim);
  const Layer layer(device, shape, 1, random);
  const reference::Rows text = some_rows(length, shape.projected_cols(), random),
                        other = some_rows(length, shape.projected_cols(), random);
  const reference::Rows want =
      reference::scan(reference_shape(shape), layer.weights,
                      reference::scan_inputs(reference_shape(shape), layer.weights, text, kEpsilon));
  const uint32_t stride = stride_of(shape.values());
  std::vector<float> results;
  for (uint32_t pos = 0; pos < length;) {
    const uint32_t count = std::min(pass, length - pos);
    const uint32_t good = pos + count < length ? count - std::min(taken_back, count - 1) : count;
    reference::Rows rows = part_of(text, pos, count);
    const reference::Rows refused = part_of(other, pos, count);
    std::copy(refused.values.begin() + good * rows.cols, refused.values.end(), rows.values.begin() + good * rows.cols);
    std::vector<float> got = layer.run(rows, pass, pos);
    for (size_t i = size_t{count} * stride; i < got.size(); ++i) EXPECT_TRUE(is_poison(got[i]));
    for (uint32_t t = 0; t < good; ++t)
      for (uint32_t i = 0; i < shape.values(); ++i) {
        const float value = got[t * stride + i];
        const double expected = want.row(pos + t)[i];
        EXPECT_NEAR(value, expected, 2e-4 * (1 + std::abs(expected))) << "token " << pos + t << " column " << i;
        if (testing::Test::HasFailure()) return {};
        results.push_back(value);
      }
    pos += good;
  }
  return results;
}

TEST_F(ScanTest, TextsInPasses) {
  for (const ops::LinearShape& shape : kShapes) {
    const std::vector<float> whole = check_text(shape, 75, 128, 0);
    for (const uint32_t pass : {8u, 9u, 31u, 64u}) EXPECT_EQ(check_text(shape, 75, pass, 0), whole);
    const std::vector<float> begin(whole.begin(), whole.begin() + 20 * shape.values());
    for (const uint32_t pass : {1u, 3u}) EXPECT_EQ(check_text(shape, 20, pass, 0), begin);
  }
}

TEST_F(ScanTest, RefusedTokensAreComputedAgain) {
  for (const ops::LinearShape& shape : {kShapes[0], kShapes[1], kShapes[5], kShapes[6], kShapes[8]}) {
    const std::vector<float> whole = check_text(shape, 40, 128, 0);
    for (const uint32_t refused : {1u, 3u, 7u}) EXPECT_EQ(check_text(shape, 40, 8, refused), whole);
    for (const uint32_t refused : {12u, 16u}) EXPECT_EQ(check_text(shape, 40, 18, refused), whole);
  }
}

// To the bit as each by itself: sessions whose states lie side by side.
TEST_F(ScanTest, SessionsOfABatch) {
  struct Member {
    uint32_t pos, active, slot;
  };
  constexpr Member kMembers[] = {{0, 1, 3}, {64, 2, 0}, {301, 4, 4}, {1, 3, 1}, {400, 1, 2}};  // the last one is full
  constexpr uint32_t kSlots = 5, kCount = std::size(kMembers);
  const auto device = open_device();
  for (const ops::LinearShape& shape : {kShapes[1], kShapes[5], kShapes[8]})
    for (const uint32_t tokens : {1u, 2u, 4u, 8u}) {
      SCOPED_TRACE(text_of(shape) + " " + std::to_string(tokens));
      const auto run = [&](bool together) {
        Random random(tokens);
        const Layer layer(device, shape, kSlots, random);
        const Activations in =
            make_activations(device, kCount * tokens, kCount * tokens, shape.projected_cols(), random);
        const Buffer prepared =
            poisoned(device, "prepared", uint64_t{kCount} * tokens * stride_of(shape.prepared_cols()));
        const Buffer y = poisoned(device, "y", uint64_t{kCount} * tokens * stride_of(shape.values()));
        std::vector<abi::BatchMember> list;
        std::vector<Buffer> states;
        for (uint32_t i = 0; i < kCount; ++i) {
          const Member& m = kMembers[i];
          const uint32_t end = std::min(m.pos + std::min(m.active, tokens), kContext);
          list.push_back({m.pos, end, 0, kContext, m.slot, i, {}});
          states.push_back(make_state(device, m.pos, end, kContext));
        }
        std::ranges::reverse(list);  // the list's order is not that of the rows
        const Buffer members = upload(device, "members", list);
        const auto part = [](const Buffer& buffer, uint64_t count, uint64_t i) {
          return View(buffer).part(i * (buffer.bytes() / count), buffer.bytes() / count);
        };
        run_op(device, layer.kernels(), [&](Recorder& r) {
          if (together)
            return layer.record(r, members, in.buffer, prepared, {layer.matrices, layer.rows, tokens}, y,
                                kCount * tokens);
          for (uint32_t i = 0; i < kCount; ++i)
            layer.record(r, states[i], part(in.buffer, kCount, i), part(prepared, kCount, i),
                         {part(layer.matrices, kSlots, kMembers[i].slot), part(layer.rows, kSlots, kMembers[i].slot)},
                         part(y, kCount, i), tokens);
        });
        return std::tuple(download_as<uint32_t>(device, y), download_as<uint32_t>(device, layer.matrices),
                          download_as<uint32_t>(device, layer.rows));
      };
      EXPECT_EQ(run(true), run(false));
    }
}

}  // namespace
}  // namespace weft::test
