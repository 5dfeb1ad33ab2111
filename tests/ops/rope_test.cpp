#include "reference/rope.h"

#include <algorithm>
#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class RopeTest : public GpuTest {};

struct Case {
  ops::HeadShape shape;
  uint32_t rotary_dim;
  ops::Pairs pairs = ops::Pairs::halves;
  uint32_t pos = 0, active = 1, tokens = 1, context = 192;
  uint32_t slots = 0;  // of the cache; 0: one for every position
  ops::CacheFormat format = {};
  uint32_t tree = 0;  // tree_of(), with `active` rows; 0: none
};

constexpr double kBase = 10000;

std::vector<float> make_rope_table(uint32_t context, uint32_t rotary_dim) {
  std::vector<float> rope_table;
  for (uint32_t p = 0; p < context; ++p)
    for (uint32_t pair = 0; pair < rotary_dim / 2; ++pair) {
      const double angle = reference::rope_angle(p, pair, rotary_dim, kBase);
      rope_table.push_back(static_cast<float>(std::cos(angle)));
      rope_table.push_back(static_cast<float>(std::sin(angle)));
    }
  if (rope_table.empty()) rope_table.push_back(0);
  return rope_table;
}

// Halves of a cache, unwritten ones NaN. kv (active, kv_heads * head_dim) are the rows of positions pos and up.
struct Caches {
  std::vector<double> keys, values;
};
Caches expected_caches(const Case& c, const reference::Rows& k, const reference::Rows& v, uint32_t capacity) {
  const uint32_t d = c.shape.head_dim, key_dims = (d + 7) / 8 * 8;
  Caches caches;
  caches.keys.assign(ops::key_bytes(c.shape, capacity) / 2, kUntouched);
  caches.values.assign(ops::value_bytes(c.shape, capacity) / 2, kUntouched);
  for (uint32_t t = 0; t < k.rows; ++t)
    for (uint32_t head = 0; head < c.shape.kv_heads; ++head) {
      const uint32_t slot = (c.pos + t) % capacity;
      for (uint32_t i = 0; i < key_dims; ++i) {  // tiles of 64 positions, interleaved by words of 8 halves
        const size_t tile = (size_t{head} * capacity + slot / TILE_ROWS * TILE_ROWS) * key_dims;
        caches.keys[tile + place_in_keys(slot % TILE_ROWS, i / 8, key_dims / 8) * 8 + i % 8] =
            i < d ? k.row(t)[head * d + i] : 0;
      }
      for (uint32_t i = 0; i < d; ++i) caches.values[(size_t{head} * capacity + slot) * d + i] = v.row(t)[head * d + i];
    }
  return caches;
}

// Vulkan leaves open which way packHalf2x16 rounds: one step of a half, or of its subnormals, off.
void expect_halves(const std::vector<uint16_t>& got, const std::vector<double>& want, double largest) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_EQ(got[i], static_cast<uint16_t>(i % 2 ? kPoison >> 16 : kPoison)) << "[" << i << "] was written";
    } else {
      ASSERT_NEAR(half_to_float(got[i]), want[i], 0x1p-10 * std::abs(want[i]) + 0x1p-24 + 4 * kRounding * largest)
          << "[" << i << "]";
    }
  }
}

// A cache of q8 against the rows of positions pos and up: each within half a step of its block, whose largest magnitude
// is 127 steps; a scale rounded to f16 (either way, Vulkan leaves it open) is 2^-10 off. keys: their layout, else
// values'.
void expect_q8(const Case& c, const std::vector<uint8_t>& got, const reference::Rows& want, uint32_t capacity,
               bool keys, double error) {
  const uint32_t d = c.shape.head_dim, blocks = (d + 31) / 32, halves = (blocks + 1) / 2;
  const uint32_t filled = (d + 15) / 16 * 16, row = filled + halves * 4;
  std::vector<bool> written(got.size());
  const auto take = [&](size_t at) {
    written[at] = true;
    return got[at];
  };
  for (uint32_t t = 0; t < want.rows; ++t)
    for (uint32_t head = 0; head < c.shape.kv_heads; ++head)
      for (uint32_t b = 0; b < halves * 2; ++b) {
        const uint32_t slot = (c.pos + t) % capacity, r = slot % TILE_ROWS;
        const size_t first = (size_t{head} * capacity + slot - r) * row;
        const size_t at =
            first + TILE_ROWS * filled + (keys ? place_in_keys(r, b / 2, halves) : r * halves + b / 2) * 4 + b % 2 * 2;
        const int low = take(at), high = take(at + 1);
        const double scale = half_to_float(static_cast<uint16_t>(low + 256 * high));
        if (b == blocks) {  // none: it fills the word
          ASSERT_EQ(scale, 0);
          continue;
        }
        double largest = 0;
        for (uint32_t dim = b * 32; dim < std::min(b * 32 + 32, d); ++dim)
          largest = std::max(largest, std::abs(want.row(t)[head * d + dim]));
        const double step = (largest + error) / 127 * (1 + 0x1p-10) + 0x1p-24;
        for (uint32_t dim = b * 32; dim < std::min(b * 32 + 32, filled); ++dim) {
          const size_t byte =
              first + (keys ? place_in_keys(r, dim / 16, filled / 16) * 16 + dim % 16 : r * filled + dim);
          const double value = scale * static_cast<int8_t>(take(byte));
          ASSERT_NEAR(value, dim < d ? want.row(t)[head * d + dim] : 0, dim < d ? step * 0.5001 + error : 0)
              << "token " << t << " head " << head << " dimension " << dim;
        }
      }
  for (size_t i = 0; i < got.size(); ++i)
    if (!written[i]) {
      ASSERT_EQ(got[i], static_cast<uint8_t>(kPoison >> (i % 4 * 8))) << "[" << i << "] was written";
    }
}

// The same of q4: within half a step of its block, whose numbers are 15 steps apart at most.
void expect_q4(const Case& c, const std::vector<uint8_t>& got, const reference::Rows& want, uint32_t capacity,
               bool keys, double error) {
  const uint32_t d = c.shape.head_dim, blocks = (d + 31) / 32;
  std::vector<bool> written(got.size());
  const auto take = [&](size_t at) {
    written[at] = true;
    return got[at];
  };
  const auto half = [&](size_t at) {
    const int low = take(at), high = take(at + 1);
    return double{half_to_float(static_cast<uint16_t>(low + 256 * high))};
  };
  for (uint32_t t = 0; t < want.rows; ++t)
    for (uint32_t head = 0; head < c.shape.kv_heads; ++head)
      for (uint32_t b = 0; b < blocks; ++b) {
        const uint32_t slot = (c.pos + t) % capacity, r = slot % TILE_ROWS;
        const size_t tile = (size_t{head} * capacity + slot - r) * blocks * 20;
        const size_t place = keys ? place_in_keys(r, b, blocks) : r * blocks + b;
        const size_t note = tile + size_t{TILE_ROWS} * blocks * 16 + place * 4;
        const double scale = half(note), minimum = half(note + 2);
        double least = d < b * 32 + 32 ? 0 : 1e30, most = d < b * 32 + 32 ? 0 : -1e30;  // zeros fill a block up
        for (uint32_t dim = b * 32; dim < std::min(b * 32 + 32, d); ++dim) {
          least = std::min(least, want.row(t)[head * d + dim]);
          most = std::max(most, want.row(t)[head * d + dim]);
        }
        const double off = std::abs(least) * 0x1p-10 + 0x1p-24 + error;  // of the minimum
        const double step = (most - least + 2 * off) / 15 * (1 + 0x1p-10) + 0x1p-24;
        for (uint32_t i = 0; i < 32; ++i) {
          const int integer = take(tile + place * 16 + i / 8 * 4 + i % 4) >> (i / 4 % 2 * 4) & 15;
          const uint32_t dim = b * 32 + i;
          ASSERT_NEAR(scale * integer + minimum, dim < d ? want.row(t)[head * d + dim] : 0, step * 0.5001 + off)
              << "token " << t << " head " << head << " dimension " << dim;
        }
      }
  for (size_t i = 0; i < got.size(); ++i)
    if (!written[i]) {
      ASSERT_EQ(got[i], static_cast<uint8_t>(kPoison >> (i % 4 * 8))) << "[" << i << "] was written";
    }
}

void check_rope(const Case& c) {
  const ops::HeadShape& s = c.shape;
  SCOPED_TRACE("heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " dim " +
               std::to_string(s.head_dim) + " rotary " + std::to_string(c.rotary_dim) + " pairs " +
               std::to_string(static_cast<int>(c.pairs)) + " pos " + std::to_string(c.pos) + " active " +
               std::to_string(c.active) + " of " + std::to_string(c.tokens) + " " + name(c.format));
  const auto device = open_device();
  const uint32_t q_dim = s.heads * s.head_dim, kv_dim = s.kv_heads * s.head_dim;
  const uint32_t capacity = c.slots ? c.slots : (c.context + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  Random random(s.head_dim + c.pos);
  const Activations qkv = make_activations(device, c.tokens, c.active, q_dim + 2 * kv_dim, random);
  const Buffer state = make_state(device, c.pos, c.pos + c.active, c.context);
  state.as<abi::StepState>()->tree = c.tree;
  const Buffer rope_table = upload(device, "rope_table", make_rope_table(c.context, c.rotary_dim));
  const Buffer q = poisoned(device, "q", uint64_t{c.tokens} * stride_of(q_dim));
  const Buffer keys = poisoned(device, "keys", ops::key_bytes(s, capacity, c.format.keys) / 4);
  const Buffer values = poisoned(device, "values", ops::value_bytes(s, capacity, c.format.values) / 4);
  const bool texel = device->plan().texel_products && s.head_dim % (c.format == Format::f16 ? 8 : 64) == 0 &&
                     c.rotary_dim % 16 == 0 && c.rotary_dim > 0;
  run_op(device, texel ? "rope texel" : "rope", [&](Recorder& recorder) {
    ops::rope(recorder, s, c.pairs, c.rotary_dim, state, qkv.buffer, rope_table, q,
              {keys, values, capacity, c.format, {}, 0, c.tree != 0}, c.tokens);
  });

  reference::Rows want_q(c.active, q_dim), want_k(c.active, kv_dim), want_v(c.active, kv_dim);
  double largest = 0;
  for (const double value : qkv.values.values) largest = std::max(largest, std::abs(value));
  const auto pairs = c.pairs == ops::Pairs::adjacent ? reference::Pairs::adjacent : reference::Pairs::halves;
  for (uint32_t t = 0; t < c.active; ++t) {
    const auto row = qkv.values.row(t);
    std::ranges::copy(row.subspan(0, q_dim), want_q.row(t).begin());
    std::ranges::copy(row.subspan(q_dim, kv_dim), want_k.row(t).begin());
    std::ranges::copy(row.subspan(q_dim + kv_dim, kv_dim), want_v.row(t).begin());
    const uint32_t position = c.pos + (c.tree == 0 ? t : static_cast<uint32_t>(rows_to(c.tree, t).size()) - 1);
    for (uint32_t head = 0; head < s.heads; ++head)
      reference::rope(want_q.row(t).subspan(head * s.head_dim, s.head_dim), position, c.rotary_dim, kBase, pairs);
    for (uint32_t head = 0; head < s.kv_heads; ++head)
      reference::rope(want_k.row(t).subspan(head * s.head_dim, s.head_dim), position, c.rotary_dim, kBase, pairs);
    if (c.format.keys != Format::q4) continue;
    for (uint32_t head = 0; head < s.heads; ++head)
      reference::rotate_blocks(want_q.row(t).subspan(head * s.head_dim, s.head_dim), KEY_SIGNS);
    for (uint32_t head = 0; head < s.kv_heads; ++head)
      reference::rotate_blocks(want_k.row(t).subspan(head * s.head_dim, s.head_dim), KEY_SIGNS);
  }
  // Two products with rounded cosines and sines, and a sum.
  const std::vector<double> expected = padded(want_q, c.tokens, stride_of(q_dim));
  // A block's rotation adds up 32 numbers in five steps, and divides by the square root of 32.
  const double error = (c.format.keys == Format::q4 ? 50 : 4) * kRounding * largest;
  EXPECT_TRUE(close_to(download_as<float>(device, q), expected, std::vector<double>(expected.size(), error)));
  const Caches caches = expected_caches(c, want_k, want_v, capacity);
  const auto expect = [&](const Buffer& buffer, Format format, bool of_keys) {
    const reference::Rows& want = of_keys ? want_k : want_v;
    if (format == Format::q8)
      return expect_q8(c, download_as<uint8_t>(device, buffer), want, capacity, of_keys, of_keys ? error : 0);
    if (format == Format::q4)
      return expect_q4(c, download_as<uint8_t>(device, buffer), want, capacity, of_keys, of_keys ? error : 0);
    expect_halves(download_as<uint16_t>(device, buffer), of_keys ? caches.keys : caches.values, of_keys ? largest : 0);
  };
  expect(keys, c.format.keys, true);
  expect(values, c.format.values, false);
}

TEST_F(RopeTest, HeadDimensionsAndGroups) {
  for (const ops::Pairs pairs : {ops::Pairs::halves, ops::Pairs::adjacent})
    for (const uint32_t dim : {2u, 8u, 12u, 16u, 64u, 80u, 128u, 256u, 512u}) {
      check_rope({{3, 3, dim}, dim, pairs, 70});
      check_rope({{6, 2, dim}, dim, pairs, 7});
      check_rope({{5, 1, dim}, dim, pairs, 0});
    }
}

TEST_F(RopeTest, PartOfAHeadTurns) {
  for (const ops::Pairs pairs : {ops::Pairs::halves, ops::Pairs::adjacent}) {
    check_rope({{4, 2, 80}, 32, pairs, 33});
    check_rope({{4, 2, 12}, 2, pairs, 33});
    check_rope({{4, 2, 16}, 0, pairs, 33});
  }
}

TEST_F(RopeTest, ChunksOverTileBorders) {
  for (const uint32_t pos : {0u, 1u, 60u, 63u, 64u, 120u})
    for (const uint32_t active : {1u, 5u, 16u}) check_rope({{9, 3, 64}, 64, ops::Pairs::halves, pos, active, 16});
}

TEST_F(RopeTest, Rings) {
  for (const uint32_t slots : {64u, 128u})
    for (const uint32_t pos : {63u, 64u, 120u, 127u, 4090u})
      check_rope({{4, 2, 12}, 12, ops::Pairs::halves, pos, 16, 16, 4200, slots});
}

TEST_F(RopeTest, CachesOfQ8) {
  for (const uint32_t dim : {2u, 12u, 32u, 48u, 64u, 80u, 96u, 128u, 192u, 200u, 256u, 512u}) {
    check_rope({{6, 2, dim}, dim, ops::Pairs::halves, 60, 5, 16, 192, 0, Format::q8});
    check_rope({{3, 3, dim}, dim / 4 * 2, ops::Pairs::adjacent, 120, 1, 1, 192, 64, Format::q8});
  }
}

TEST_F(RopeTest, CachesOfQ4) {
  for (const uint32_t dim : {2u, 12u, 32u, 64u, 80u, 96u, 128u, 200u, 256u, 512u}) {
    check_rope({{6, 2, dim}, dim, ops::Pairs::halves, 60, 5, 16, 192, 0, Format::q4});
    check_rope({{3, 3, dim}, dim / 4 * 2, ops::Pairs::adjacent, 120, 1, 1, 192, 64, Format::q4});
  }
  check_rope({{4, 2, 64}, 0, ops::Pairs::halves, 60, 5, 16, 192, 0, Format::q4});  // keys without positions
  for (const Format keys : kFormats)
    for (const Format values : kFormats)
      if (keys != values)
        for (const uint32_t dim : {12u, 64u})
          check_rope({{6, 2, dim}, dim, ops::Pairs::halves, 60, 5, 16, 192, 0, {keys, values}});
}

// A row's angle is that of its depth, its slot that of its number.
TEST_F(RopeTest, DraftsThatAreTrees) {
  for (const Format format : {Format::f16, Format::q8, Format::q4})
    for (const uint32_t pos : {0u, 60u, 122u}) {
      check_rope({{6, 2, 64},
                  64,
                  ops::Pairs::halves,
                  pos,
                  8,
                  8,
                  192,
                  pos == 122 ? 64u : 0u,
                  format,
                  tree_of({0, 0, 0, 1, 1, 2, 4})});
      check_rope({{4, 2, 12}, 12, ops::Pairs::adjacent, pos, 3, 4, 192, 0, format, tree_of({0, 0})});
    }
}

TEST_F(RopeTest, LastPositionOfTheContext) {
  check_rope({{4, 2, 16}, 16, ops::Pairs::adjacent, 129, 1, 1, 130});
  check_rope({{4, 2, 16}, 16, ops::Pairs::adjacent, 127, 3, 16, 130});
}

TEST_F(RopeTest, AfterTheContextNothingIsWritten) {
  const auto device = open_device();
  const ops::HeadShape shape = {2, 1, 8};
  Random random(1);
  const Activations qkv = make_activations(device, 1, 1, 32, random);
  const Buffer state = make_state(device, 64, 65, 64),
               rope_table = upload(device, "rope_table", make_rope_table(64, 8));
  const Buffer q = poisoned(device, "q", stride_of(16)), keys = poisoned(device, "keys", 64 * 4);
  const Buffer values = poisoned(device, "values", 64 * 4);
  run_op(device, "rope", [&](Recorder& recorder) {
    ops::rope(recorder, shape, ops::Pairs::halves, 8, state, qkv.buffer, rope_table, q, {keys, values, 64}, 1);
  });
  for (const Buffer* buffer : {&q, &keys, &values})
    for (const uint32_t word : download_as<uint32_t>(device, *buffer)) ASSERT_EQ(word, kPoison) << buffer->name();
}

// Rotating queries and keys by the same angle keeps their product: it depends on the distance only.
TEST(RopeReference, DependsOnTheDistanceOnly) {
  Random random(3);
  for (const reference::Pairs pairs : {reference::Pairs::halves, reference::Pairs::adjacent}) {
    const std::vector<float> a = random.normals(16), b = random.normals(16);
    double products[2];
    for (const uint32_t shift : {0u, 1u}) {
      std::vector<double> q = doubles(a), k = doubles(b);
      reference::rope(q, 7 + shift * 100, 12, kBase, pairs);
      reference::rope(k, 3 + shift * 100, 12, kBase, pairs);
      products[shift] = 0;
      for (size_t i = 0; i < q.size(); ++i) products[shift] += q[i] * k[i];
    }
    EXPECT_NEAR(products[0], products[1], 1e-12);
  }
}

}  // namespace
}  // namespace weft::test
