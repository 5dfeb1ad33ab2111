// attend with a fused rope gives what rope and attend give one after the other, which their own tests compare with the
// reference.
#include <cmath>
#include <numbers>

#include "base/half.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

struct Case {
  ops::HeadShape shape;
  uint32_t rotary_dim;
  ops::Pairs pairs;
  uint32_t pos;
  ops::Attention attention = {0.2f};
  uint32_t capacity = 0;  // slots; 0: one for every position
  bool sinks = false;
};

struct Result {
  std::vector<float> y;
  std::vector<uint32_t> keys, values;
};

class AttendTurnsTest : public GpuTest {};

Result run(const std::shared_ptr<Device>& device, const Case& c, bool fused) {
  const ops::HeadShape& s = c.shape;
  const uint32_t q_dim = s.heads * s.head_dim, kv_dim = s.kv_heads * s.head_dim;
  const uint32_t capacity = c.capacity ? c.capacity : (c.pos + TILE_ROWS) / TILE_ROWS * TILE_ROWS;
  Random random(s.head_dim + c.pos);
  const Activations qkv = make_activations(device, 1, 1, q_dim + 2 * kv_dim, random);
  const Buffer state = make_state(device, c.pos, c.pos + 1, c.pos + 1);
  std::vector<float> rope_table;
  for (uint32_t i = 0; i < (c.pos + 1) * c.rotary_dim / 2; ++i) {
    const double angle = std::numbers::pi * (random.normal() + 1);
    rope_table.insert(rope_table.end(), {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
  }
  const auto halves = [&](uint64_t bytes) {
    std::vector<float> words(bytes / 4);
    for (float& word : words) {
      const uint32_t low = float_to_half(random.normal()), high = float_to_half(random.normal());
      word = std::bit_cast<float>(low | high << 16);
    }
    return words;
  };
  const Buffer keys = upload(device, "keys", halves(ops::key_bytes(s, capacity)));
  const Buffer values = upload(device, "values", halves(ops::value_bytes(s, capacity)));
  const Buffer table_buffer = upload(device, "rope_table", rope_table), q = poisoned(device, "q", stride_of(q_dim));
  const Buffer y = poisoned(device, "y", stride_of(q_dim));
  const ops::FusedRope fused_rope = {c.pairs, c.rotary_dim, table_buffer};
  const uint64_t part_bytes = ops::part_bytes(device->plan(), s, capacity, 1);
  const Buffer parts = upload(device, "parts", std::vector<float>(std::max<uint64_t>(part_bytes / 4, 1)));
  const ops::CacheView cache = {keys, values, capacity, Format::f16, parts};
  const Plan& plan = device->plan();
  const Buffer sinks = upload(device, "sinks", random.normals(s.heads));
  ops::Attention attention = c.attention;
  if (c.sinks) attention.sinks = sinks;
  std::string expected = fused ? "" : plan.texel_products ? "rope texel, " : "rope, ";
  expected += plan.texel_products && c.shape.head_dim <= 256 ? "attend texel" : reduction("attend", plan);
  run_op(device, expected, [&](Recorder& recorder) {
    if (fused) {
      EXPECT_TRUE(ops::can_fuse_rope(device->plan(), s, attention, fused_rope, Format::f16, 1));
      return ops::attend(recorder, s, attention, state, qkv.buffer, cache, y, 1, &fused_rope);
    }
    ops::rope(recorder, s, c.pairs, c.rotary_dim, state, qkv.buffer, table_buffer, q, cache, 1);
    ops::attend(recorder, s, attention, state, q, cache, y, 1);
  });
  return {download_as<float>(device, y), download_as<uint32_t>(device, keys), download_as<uint32_t>(device, values)};
}

// The device's own kernels, and those of GPUs: reductions of subgroups and of shared memory. The first one has all
// shapes.
std::vector<Tuning> tunings() {
  std::vector<Tuning> all = {{}};
  for (Tuning tuning : reduction_tunings()) {
    if (tuning.reduce_threads == 0 && !tuning.plain) continue;  // a chip's own: the first one
    tuning.texel_products = false;
    all.push_back(tuning);
  }
  return all;
}

void check(const Case& c, const Tuning& tuning) {
  SCOPED_TRACE(tuning.name() + "heads " + std::to_string(c.shape.heads) + "/" + std::to_string(c.shape.kv_heads) +
               " dim " + std::to_string(c.shape.head_dim) + " rotary " + std::to_string(c.rotary_dim) + " pos " +
               std::to_string(c.pos));
  const auto device = open_device(tuning);
  const Result want = run(device, c, false), got = run(device, c, true);
  EXPECT_EQ(got.keys, want.keys);
  EXPECT_EQ(got.values, want.values);
  // Values are of size 1, and scores of a few: a few roundings of either.
  for (uint32_t i = 0; i < c.shape.heads * c.shape.head_dim; ++i)
    ASSERT_NEAR(got.y[i], want.y[i], 256 * kRounding) << "dimension " << i;
}

// Every shape has two pipelines of its own: all of them by the device's own kernels, and with WEFT_SWEEP by others.
TEST_F(AttendTurnsTest, EqualsRopeAndAttend) {
  using Shapes = std::vector<std::pair<ops::HeadShape, uint32_t>>;
  const Shapes two = {{{9, 3, 64}, 64}, {{2, 1, 256}, 64}};
  const Shapes all = {{{9, 3, 64}, 64},   {{4, 2, 80}, 32},   {{5, 1, 96}, 96},  // a workgroup a query head
                      {{6, 1, 128}, 128},                                        // workgroups of two
                      {{2, 1, 256}, 64},  {{4, 1, 512}, 512}, {{2, 2, 24}, 16}};
  bool whole = true;
  for (Tuning tuning : tunings()) {
    for (const auto& [shape, rotary] : whole ? all : two)
      for (const uint32_t pos : {0u, 15u, 16u, 64u, 300u}) {
        check({shape, rotary, ops::Pairs::halves, pos}, tuning);
        if (whole && shape.head_dim < 64) check({shape, rotary, ops::Pairs::adjacent, pos}, tuning);
      }
    check({{9, 3, 64}, 64, ops::Pairs::halves, 300, {0.2f, 100}}, tuning);       // a window
    check({{9, 3, 64}, 64, ops::Pairs::halves, 700, {0.2f, 128}, 128}, tuning);  // in a ring
    if (whole) {
      check({{9, 3, 64}, 64, ops::Pairs::halves, 300, {1.5f, 0, 5}}, tuning);          // a soft-cap
      check({{7, 1, 16}, 16, ops::Pairs::adjacent, 300, {0.2f, 0, 0, true}}, tuning);  // ALiBi
      for (const uint32_t pos : {0u, 300u}) check({{9, 3, 64}, 64, ops::Pairs::halves, pos, {0.2f}, 0, true}, tuning);
      check({{9, 3, 64}, 64, ops::Pairs::halves, 300, {.scale = 0.2f, .growth = {0.7f, 64}}}, tuning);
    }
    tuning.attend_span = 64;
    check({{9, 3, 64}, 64, ops::Pairs::halves, 300, {0.2f}, 512, true}, tuning);
    for (const uint32_t pos : {0u, 63u, 64u, 300u})
      check({{9, 3, 64}, 64, ops::Pairs::halves, pos, {0.2f}, 512}, tuning);
    whole = sweeps();
  }
}

TEST_F(AttendTurnsTest, NotEverywhere) {
  const auto device = open_device({.texel_products = false});
  const ops::FusedRope rope = {ops::Pairs::halves, 64, {}};
  const auto can = [&](const ops::HeadShape& shape, const ops::Attention& attention, Format cache, uint32_t tokens) {
    return ops::can_fuse_rope(device->plan(), shape, attention, rope, cache, tokens);
  };
  EXPECT_TRUE(can({3, 1, 64}, {0.2f}, Format::f16, 1));
  EXPECT_FALSE(can({3, 1, 64}, {0.2f}, Format::f16, 2)) << "tokens that see each other";
  EXPECT_FALSE(can({3, 1, 64}, {0.2f}, Format::q8, 1)) << "a cache of q8";
  EXPECT_FALSE(can({3, 1, 68}, {0.2f}, Format::f16, 1)) << "half a word";
}

// A pass that runs ahead of a full context, whose result nobody reads, must not overwrite the first position.
TEST_F(AttendTurnsTest, AfterTheContextNothingIsWritten) {
  for (const Tuning& tuning : tunings()) {
    const auto device = open_device(tuning);
    const ops::HeadShape shape = {2, 1, 16};
    const Buffer state = make_state(device, 64, 65, 64), qkv = upload(device, "qkv", std::vector<float>(64, 1.0f));
    const Buffer rope_table = upload(device, "rope_table", std::vector<float>(65 * 16)),
                 y = poisoned(device, "y", stride_of(32));
    const Buffer keys = poisoned(device, "keys", ops::key_bytes(shape, 64) / 4);
    const Buffer values = poisoned(device, "values", ops::value_bytes(shape, 64) / 4);
    const ops::FusedRope fused_rope = {ops::Pairs::halves, 16, rope_table};
    const bool texel = device->plan().texel_products;
    run_op(device, texel ? "attend texel" : reduction("attend", device->plan()), [&](Recorder& recorder) {
      ops::attend(recorder, shape, {0.2f}, state, qkv, {keys, values, 64}, y, 1, &fused_rope);
    });
    for (const Buffer* buffer : {&keys, &values})
      for (const uint32_t word : download_as<uint32_t>(device, *buffer)) ASSERT_EQ(word, kPoison) << buffer->name();
  }
}

}  // namespace
}  // namespace weft::test
