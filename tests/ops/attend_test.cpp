#include "reference/attend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class AttendTest : public GpuTest {};

struct Case {
  ops::HeadShape shape;
  uint32_t pos = 0, active = 1, tokens = 1;
  float key_scale = 1;
  float drift = 0;  // added to the scores from one position to the next, about
  uint32_t window = 0;
  float soft_cap = 0;
  uint32_t capacity = 0;  // slots of the cache; 0: one for every position
  bool alibi = false;
  ops::AttentionMask mask = ops::AttentionMask::causal;
  uint32_t reach = 0;   // 0: no biases
  uint32_t source = 0;  // positions of an encoder's output
  ops::CacheFormat format = {};
  bool sinks = false;
  ops::QueryGrowth growth = {};
  uint32_t tree = 0;  // tree_of(), with `active` rows; 0: none
};

// A cache on the device, in the layout of abi.h, with NaN in every slot that no position before `length` is in.
struct Cache {
  reference::Rows keys, values;  // (length, kv_heads * head_dim), as rounded to the cache's format
  Buffer key_buffer, value_buffer;
  uint32_t capacity;
};

// The keys or the values of a cache. Words are numbered in a slot; integers cannot be NaN, scales can.
class Filler {
 public:
  Filler(const Case& c, bool keys, uint32_t capacity, uint32_t length, Random& random)
      : c_(c), keys_(keys), capacity_(capacity), random_(random), rows_(length, c.shape.kv_heads * c.shape.head_dim) {
    const Format format = keys ? c.format.keys : c.format.values;
    bytes_.assign((keys ? ops::key_bytes : ops::value_bytes)(c.shape, capacity, format), 0x7e);
    const uint32_t d = c.shape.head_dim, blocks = (d + 31) / 32;
    words_ = format == Format::q4 ? blocks : format == Format::q8 ? (d + 15) / 16 : (d + 7) / 8;
    scale_words_ = format == Format::q4 ? blocks : format == Format::q8 ? (blocks + 1) / 2 : 0;
    for (uint32_t p = 0; p < length; ++p)
      for (uint32_t head = 0; head < c.shape.kv_heads; ++head) {
        if (format == Format::f16) fill_f16(p, head);
        if (format == Format::q8) fill_q8(p, head);
        if (format == Format::q4) fill_q4(p, head);
      }
  }
  const reference::Rows& rows() const { return rows_; }
  Buffer upload_to(const std::shared_ptr<Device>& device) const {
    return upload(device, keys_ ? "keys" : "values", bytes_);
  }

 private:
  double& number(uint32_t p, uint32_t head, uint32_t dim) { return rows_.row(p)[head * c_.shape.head_dim + dim]; }
  uint8_t* tile(uint32_t p, uint32_t head) {
    const uint32_t slot = p % capacity_;
    return &bytes_[(size_t{head} * capacity_ + slot / TILE_ROWS * TILE_ROWS) * (words_ * 16 + scale_words_ * 4)];
  }
  size_t place(uint32_t p, uint32_t k, uint32_t count) const {
    const uint32_t r = p % capacity_ % TILE_ROWS;
    return keys_ ? place_in_keys(r, k, count) : size_t{r} * count + k;
  }
  uint8_t* word(uint32_t p, uint32_t head, uint32_t k) { return tile(p, head) + place(p, k, words_) * 16; }
  uint8_t* scale(uint32_t p, uint32_t head, uint32_t k) {
    return tile(p, head) + size_t{TILE_ROWS} * words_ * 16 + place(p, k, scale_words_) * 4;
  }
  float key_scale() const { return keys_ ? c_.key_scale : 1; }

  void fill_f16(uint32_t p, uint32_t head) {
    const uint32_t d = c_.shape.head_dim;
    for (uint32_t i = 0; i < (keys_ ? words_ * 8 : d); ++i) {
      const float drift = keys_ && i == 0 ? c_.drift * static_cast<float>(p) : 0;
      const uint16_t half = i < d ? float_to_half(random_.normal() * key_scale() + drift) : 0;
      // Values are not filled up to words.
      uint8_t* const to =
          keys_ ? word(p, head, i / 8) + i % 8 * 2 : &bytes_[((size_t{head} * capacity_ + p % capacity_) * d + i) * 2];
      std::memcpy(to, &half, 2);
      if (i < d) number(p, head, i) = half_to_float(half);
    }
  }
  void fill_q8(uint32_t p, uint32_t head) {
    const uint32_t d = c_.shape.head_dim;
    for (uint32_t b = 0; b < (d + 31) / 32; ++b) {
      const uint16_t half = float_to_half(random_.uniform(0.005f, 0.02f) * key_scale());
      std::memcpy(scale(p, head, b / 2) + b % 2 * 2, &half, 2);
      for (uint32_t dim = b * 32; dim < std::min(b * 32 + 32, words_ * 16); ++dim) {
        const int byte = dim < d ? static_cast<int>(random_.below(255)) - 127 : 0;
        word(p, head, dim / 16)[dim % 16] = static_cast<uint8_t>(byte);
        if (dim < d) number(p, head, dim) = double{half_to_float(half)} * byte;
      }
    }
  }
  void fill_q4(uint32_t p, uint32_t head) {
    for (uint32_t b = 0; b < words_; ++b) {
      const uint16_t notes[] = {float_to_half(random_.uniform(0.05f, 0.2f) * key_scale()),
                                float_to_half(random_.uniform(-2, 0.5f) * key_scale())};
      std::memcpy(scale(p, head, b), notes, 4);
      uint8_t* const block = word(p, head, b);
      std::memset(block, 0, 16);
      for (uint32_t i = 0; i < 32; ++i) {
        const uint32_t integer = random_.below(16), dim = b * 32 + i;  // whatever fills a block counts nothing
        block[i / 8 * 4 + i % 4] |= static_cast<uint8_t>(integer << (i / 4 % 2 * 4));
        if (dim < c_.shape.head_dim)
          number(p, head, dim) = double{half_to_float(notes[0])} * integer + half_to_float(notes[1]);
      }
    }
  }

  const Case& c_;
  bool keys_;
  uint32_t capacity_, words_, scale_words_;  // of a slot: words of 16 bytes, then of 4
  Random& random_;
  reference::Rows rows_;
  std::vector<uint8_t> bytes_;
};

Cache make_cache(const std::shared_ptr<Device>& device, const Case& c, uint32_t length, Random& random) {
  const uint32_t capacity = c.capacity ? c.capacity : (length + TILE_ROWS) / TILE_ROWS * TILE_ROWS;
  const Filler keys(c, true, capacity, length, random), values(c, false, capacity, length, random);
  return {keys.rows(), values.rows(), keys.upload_to(device), values.upload_to(device), capacity};
}

// Returns the output.
std::vector<uint32_t> check_attend(const Tuning& tuning, const Case& c) {
  const ops::HeadShape& s = c.shape;
  SCOPED_TRACE(tuning.name() + " heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " dim " +
               std::to_string(s.head_dim) + " pos " + std::to_string(c.pos) + " active " + std::to_string(c.active) +
               " of " + std::to_string(c.tokens) + " window " + std::to_string(c.window) + " cap " +
               std::to_string(c.soft_cap) + " of " + std::to_string(c.capacity) + " slots " + name(c.format) +
               (c.alibi ? " alibi" : "") + (c.sinks ? " sinks" : ""));
  const auto device = open_device(tuning);
  Random random(s.head_dim * 1000 + c.pos);
  const bool from_source = c.mask == ops::AttentionMask::source;
  const uint32_t q_dim = s.heads * s.head_dim, length = from_source ? c.source : c.pos + c.active;
  const Activations q = make_activations(device, c.tokens, c.active, q_dim, random);
  const Cache cache = make_cache(device, c, length, random);
  // A cache of an encoder's output has a length of its own, whatever the session can hold.
  const Buffer state = make_state(device, c.pos, c.pos + c.active, c.pos + c.active, c.source);
  state.as<abi::StepState>()->tree = c.tree;
  const std::vector<float> biases =
      c.reach ? random.normals(size_t{s.heads} * (2 * c.reach + 1)) : std::vector<float>();
  const Buffer bias_buffer = upload(device, "biases", c.reach ? biases : std::vector<float>(1));
  std::vector<float> sinks;  // some above all scores, and some below
  for (uint32_t head = 0; c.sinks && head < s.heads; ++head) sinks.push_back(static_cast<float>(head % 3) * 4 - 4);
  const Buffer sink_buffer = upload(device, "sinks", c.sinks ? sinks : std::vector<float>(1));
  const Buffer y = poisoned(device, "y", uint64_t{c.tokens} * q.stride);
  // Scratch of more tokens than there are: where counts lie and where parts do must not depend on them.
  const uint64_t more_bytes = ops::part_bytes(device->plan(), s, cache.capacity, c.tokens + 3);
  std::vector<float> scratch(std::max<uint64_t>(more_bytes / 4, 1), std::bit_cast<float>(kPoison));
  std::fill(scratch.end() - static_cast<ptrdiff_t>(more_bytes ? (c.tokens + 3) * s.heads : 0), scratch.end(), 0.0f);
  const Buffer parts = upload(device, "parts", scratch);
  const float scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  const auto whole = [&](Format format, uint32_t q4) {
    return s.head_dim % (format == Format::q4 ? q4 : format == Format::q8 ? 16 : 8) == 0;
  };
  const bool texel =
      device->plan().texel_products && s.head_dim <= 256 && whole(c.format.keys, 32) && whole(c.format.values, 64);
  std::string expected = texel ? "attend texel" : reduction("attend", device->plan());
  run_op(device, expected, [&](Recorder& recorder) {
    ops::Attention attention = {scale, c.window, c.soft_cap, c.alibi, c.mask, {}};
    if (c.reach) attention.biases = {bias_buffer, c.reach};
    if (c.sinks) attention.sinks = sink_buffer;
    attention.growth = c.growth;
    ops::attend(recorder, s, attention, state, q.buffer,
                {cache.key_buffer, cache.value_buffer, cache.capacity, c.format, parts, 0, c.tree != 0}, y, c.tokens);
  });
  if (more_bytes) {
    const std::vector<uint32_t> left = download_as<uint32_t>(device, parts);
    for (size_t i = left.size() - size_t{std::min(c.tokens, 16u)} * s.heads; i < left.size(); ++i)
      EXPECT_EQ(left[i], 0u) << "workgroups that have come, for the next pass";
  }

  reference::Rows want(c.active, q_dim), allowed(c.active, q_dim);
  for (uint32_t t = 0; t < c.active; ++t) {
    reference::Rows keys = cache.keys, values = cache.values;
    uint32_t own = c.pos + t;
    if (c.tree != 0) {  // as if the rows that it follows were all there is after the context
      const std::vector<uint32_t> rows = rows_to(c.tree, t);
      own = c.pos + static_cast<uint32_t>(rows.size()) - 1;
      for (size_t depth = 0; depth < rows.size(); ++depth) {
        const uint32_t to = c.pos + static_cast<uint32_t>(depth), from = c.pos + rows[depth];
        std::ranges::copy(cache.keys.row(from), keys.row(to).begin());
        std::ranges::copy(cache.values.row(from), values.row(to).begin());
      }
    }
    const double grown = scale * (1 + double{c.growth.rate} * std::log1p(own / c.growth.step));
    const reference::Attention attention = reference::attend(
        q.values.row(t), keys, values, s.heads, s.kv_heads, c.mask == ops::AttentionMask::causal ? own + 1 : length,
        grown, c.window, c.soft_cap, c.alibi, biases, static_cast<int>(own), sinks);
    std::ranges::copy(attention.y, want.row(t).begin());
    // An error e of a score changes its weight by the factor exp(e), and all weights' sum by no more; 5e-6 for the
    // exponentials themselves and for adding up.
    const double score_error = dot_error(s.head_dim) * attention.score_magnitude +
                               8 * kRounding * static_cast<double>(c.soft_cap) + (c.alibi ? 8 * kRounding * length : 0);
    for (uint32_t i = 0; i < q_dim; ++i) allowed.row(t)[i] = 2 * attention.magnitude[i] * (score_error + 5e-6);
  }
  EXPECT_TRUE(
      close_to(download_as<float>(device, y), padded(want, c.tokens, q.stride), padded(allowed, c.tokens, q.stride)));
  return download_as<uint32_t>(device, y);
}

TEST_F(AttendTest, HeadDimensionsAndGroups) {
  for (const Tuning& tuning : reduction_tunings()) check_attend(tuning, {{9, 3, 64}, 299});
  // A pipeline each, which a software driver compiles for a second.
  for (const bool plain : {false, true})
    for (const uint32_t dim : {2u, 12u, 80u, 200u, 256u, 512u}) {
      if (!sweeps() && plain != (dim % 80 == 0)) continue;
      const Tuning tuning = {.plain = plain, .texel_products = false};
      check_attend(tuning, {{9, 3, dim}, 299});
      check_attend(tuning, {{9, 3, dim}, 0});
    }
  for (const ops::HeadShape& shape :
       {ops::HeadShape{3, 3, 8}, {5, 1, 16}, {8, 1, 64}, {16, 2, 128}, {5, 5, 256}, {4, 1, 512}})
    check_attend({}, {shape, 40});
}

TEST_F(AttendTest, LengthsOverBlocksAndTiles) {
  for (const bool plain : {false, true})
    for (const uint32_t length : {1u, 2u, 63u, 64u, 65u, 255u, 256u, 257u, 511u, 512u, 513u, 1025u, 3000u}) {
      Tuning tuning;
      tuning.plain = plain;
      check_attend(tuning, {{4, 2, 16}, length - 1});
    }
}

// Rows see the context and the rows that they follow: over borders of tiles, blocks and parts, in rings, and with spare
// rows after the tree's.
TEST_F(AttendTest, DraftsThatAreTrees) {
  const uint32_t wide = tree_of({0, 0, 0, 1, 1, 2, 4}), comb = tree_of({0, 0, 2, 2, 4, 4, 6});
  for (const Tuning& tuning : attend_tunings())
    for (const Format format : {Format::f16, Format::q8, Format::q4})
      for (const uint32_t pos : {0u, 61u, 126u, 300u})
        for (const uint32_t tree : {wide, comb}) {
          Case c = {{9, 3, 64}, pos, tree == wide ? 8u : 7u, 8};
          c.format = format;
          c.tree = tree;
          check_attend(tuning, c);
          c.window = 40;
          c.capacity = 64;
          c.growth = {0.1f, 32};
          check_attend(tuning, c);
        }
  Case small = {{4, 2, 12}, 70, 4, 4};
  small.tree = tree_of({0, 0, 1});
  check_attend({}, small);
}

TEST_F(AttendTest, RefusesTreesThatAreHidden) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 8, 64), some(device, "some", 1 << 20, Memory::device);
  const auto run = [&](const ops::Attention& attention, uint32_t tokens) {
    run_op(device, "attend", [&](Recorder& recorder) {
      ops::attend(recorder, {2, 2, 16}, attention, state, some, {some, some, 64, Format::f16, some, 0, true}, some,
                  tokens);
    });
  };
  EXPECT_THROW(run({.scale = 1, .window = 7}, 8), Error);
  EXPECT_THROW(run({.scale = 1, .alibi = true}, 8), Error);
  EXPECT_THROW(run({.scale = 1, .mask = ops::AttentionMask::none}, 8), Error);
  EXPECT_THROW(run({.scale = 1}, 9), Error);
}

TEST_F(AttendTest, Sinks) {
  for (const Tuning& tuning : attend_tunings())
    for (const Format format : {Format::f16, Format::q8})
      for (const uint32_t pos : {0u, 63u, 300u})
        for (const uint32_t tokens : {1u, 5u}) {
          Case c = {{9, 3, 64}, pos, tokens, tokens};
          c.format = format;
          c.sinks = true;
          check_attend(tuning, c);
          c.window = 40;
          check_attend(tuning, c);
        }
}

// Steps within a chunk of tokens, and far from the first.
TEST_F(AttendTest, QueriesGrow) {
  for (const Tuning& tuning : attend_tunings())
    for (const uint32_t pos : {0u, 61u, 300u}) {
      Case c = {{9, 3, 64}, pos, 5, 5};
      c.growth = {0.7f, 32};
      check_attend(tuning, c);
    }
}

// llvmpipe ends a shader's loops after 65,535 rounds.
TEST_F(AttendTest, LongContexts) {
  check_attend({}, {{9, 3, 64}, 32767});
  check_attend({}, {{2, 1, 128}, 20000, 2, 2});
}

// A cache longer than what a workgroup goes through, of which some parts hold nothing yet, or nothing that is seen.
TEST_F(AttendTest, Parts) {
  for (const bool plain : {false, true})
    for (const uint32_t span : {64u, 256u}) {
      if (!sweeps() && plain && span == 256) continue;
      const Tuning tuning = {.plain = plain, .attend_span = span};
      for (const uint32_t pos : {0u, 63u, 64u, 65u, 700u}) {
        check_attend(tuning, {{9, 3, 64}, pos, 1, 1, 1, 0, 0, 0, 1024});
        if (pos < 65) continue;
        check_attend(tuning, {{4, 2, 80}, pos, 5, 13, 1, 0, 0, 0, 1024});
        check_attend(tuning, {{3, 3, 12}, pos, 5, 13, 1, 0, 100, 0, 1024});  // a window
        check_attend(tuning, {{4, 2, 16}, pos, 3, 13, 5, 0, 0, 5, 1024});    // a soft-cap
        check_attend(tuning, {{12, 1, 40}, pos, 1, 1, 1, 0, 0, 0, 1024});    // three workgroups of four heads
        check_attend(tuning, {{5, 1, 256}, pos, 1, 1, 1, 0, 0, 0, 1024});    // five of one
        check_attend(tuning, {{4, 1, 512}, pos, 1, 1, 1, 0, 0, 0, 1024});    // two of two
      }
      check_attend(tuning, {{3, 1, 16}, 1500, 13, 13, 1, 0, 300, 0, 320});  // a ring
      Case steep = {{2, 1, 64}, 700};
      steep.key_scale = 20;  // nearly one-hot: most parts weigh nothing
      check_attend(tuning, steep);
      Case alibi = {{7, 1, 16}, 300, 5, 13};
      alibi.alibi = true;
      check_attend(tuning, alibi);
      Case q8 = {{4, 2, 64}, 700, 3, 13};
      q8.format = Format::q8;
      check_attend(tuning, q8);
    }
}

// More positions than 64 parts have with the least span.
TEST_F(AttendTest, SpansGrow) {
  for (const uint32_t pos : {4094u, 4095u, 4096u, 9000u})
    check_attend({.plain = true, .attend_span = 64}, {{4, 2, 16}, pos, 1, 1, 1, 0, 0, 0, 9024});
}

TEST_F(AttendTest, RefusesPartsWithoutRoom) {
  const auto device = open_device({.attend_span = 64});
  const Buffer any(device, "any", 1 << 20, Memory::device), small(device, "small", 64, Memory::device);
  EXPECT_THROW(run_op(device, "attend",
                      [&](Recorder& recorder) {
                        ops::attend(recorder, {4, 2, 16}, {1}, any, any, {any, any, 128, Format::f16, small}, any, 1);
                      }),
               Error);
}

TEST_F(AttendTest, ChunksAreCausal) {
  for (const uint32_t pos : {0u, 1u, 60u, 250u, 509u})
    for (const uint32_t active : {1u, 5u, 16u}) check_attend({}, {{6, 2, 12}, pos, active, 16});
}

// Neighbours in a prompt that share what they read give what they give by themselves, to the last bit.
TEST_F(AttendTest, TokensOfAPromptAtOnce) {
  const auto check = [](const Case& c, bool plain = false) {
    Tuning tuning = {.plain = plain, .tile_tokens = 64, .texel_products = false};
    std::vector<uint32_t> outputs[2];
    for (const uint32_t block_tokens : {1, 8}) {
      tuning.block_tokens = block_tokens;
      outputs[block_tokens == 8] = check_attend(tuning, c);
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  };
  for (const uint32_t active : {32u, 17u, 1u}) {
    check({{4, 2, 64}, 131, active, 32}, true);
    for (const ops::HeadShape& shape : {ops::HeadShape{2, 2, 64}, {6, 3, 12}, {3, 3, 256}})
      for (const uint32_t pos : {0u, 131u}) check({shape, pos, active, 32});
  }
  Case c = {{4, 2, 64}, 131, 29, 32};
  for (const Format keys : {Format::q8, Format::q4}) {
    c.format = {keys, keys};
    check(c);
  }
  c.format = {};
  c.soft_cap = 5;
  c.sinks = true;
  c.growth = {0.1f, 16};
  check(c);
  c.alibi = true;
  check(c);
  c = {{4, 2, 16}, 131, 29, 32};
  c.reach = 20;
  check(c);
  c.reach = 0;
  c.window = 70;
  check(c);
}

TEST_F(AttendTest, RisingAndFallingScores) {
  for (const float drift : {0.02f, -0.02f}) {
    Case c = {{2, 1, 64}, 1500};
    c.drift = drift;  // the running peak moves in every block, by more than exp() reaches in all
    check_attend({}, c);
  }
  Case c = {{2, 1, 64}, 700};
  c.key_scale = 20;  // nearly one-hot
  check_attend({}, c);
}

TEST_F(AttendTest, Windows) {
  for (const bool plain : {false, true})
    for (const uint32_t window : {1u, 2u, 63u, 64u, 100u, 300u, 5000u})
      for (const uint32_t pos : {0u, 62u, 99u, 600u}) {
        Tuning tuning;
        tuning.plain = plain;
        check_attend(tuning, {{3, 1, 16}, pos, 5, 16, 1, 0, window});
      }
}

// A ring just large enough for the pass: window + tokens - 1, rounded up to tiles.
TEST_F(AttendTest, Rings) {
  for (const bool plain : {false, true})
    for (const auto& [window, active, capacity] :
         {std::array{64u, 1u, 64u}, {49u, 16u, 64u}, {60u, 5u, 128u}, {300u, 16u, 320u}, {630u, 3u, 640u}})
      for (const uint32_t pos : {0u, 62u, 127u, 319u, 640u, 1500u}) {
        Tuning tuning;
        tuning.plain = plain;
        check_attend(tuning, {{3, 1, 16}, pos, active, 16, 1, 0, window, 0, capacity});
      }
  check_attend({}, {{4, 2, 256}, 700, 16, 16, 1, 0, 300, 0, 320});
}

TEST_F(AttendTest, CachesOfQ8) {
  const auto q8 = [](Case c) {
    c.format = Format::q8;
    return c;
  };
  const auto check_dims = [&](const Tuning& tuning, std::initializer_list<uint32_t> dims) {
    for (const uint32_t dim : dims) {  // a pipeline each
      check_attend(tuning, q8({{3, 3, dim}, 299}));
      check_attend(tuning, q8({{4, 2, dim}, 63, 5, 16}));
      check_attend(tuning, q8({{4, 2, dim}, 300, 3, 16, 1, 0, 70}));  // a window
    }
  };
  check_dims({}, {2u, 12u, 32u, 64u, 80u, 96u, 256u});
  check_dims({.plain = true}, {2u, 80u});
  for (const Tuning& tuning : reduction_tunings()) check_dims(tuning, {12u});
  check_attend({}, q8({{4, 2, 80}, 1500, 16, 16, 1, 0, 300, 0, 320}));  // a ring
  check_attend({}, q8({{4, 2, 64}, 700, 1, 1, 20}));                    // nearly one-hot
  check_attend({}, q8({{4, 2, 64}, 300, 3, 16, 5, 0, 70, 50}));         // a soft-cap
  Case alibi = q8({{3, 1, 48}, 300, 5, 16});
  alibi.alibi = true;
  check_attend({}, alibi);
}

TEST_F(AttendTest, CachesOfQ4) {
  const auto with = [](const ops::CacheFormat& format, Case c) {
    c.format = format;
    return c;
  };
  const auto q4 = [&](const Case& c) { return with(Format::q4, c); };
  const auto check_dims = [&](const Tuning& tuning, std::initializer_list<uint32_t> dims) {
    for (const uint32_t dim : dims) {  // a pipeline each
      check_attend(tuning, q4({{4, 2, dim}, 63, 5, 16}));
      check_attend(tuning, q4({{4, 2, dim}, 300, 3, 16, 1, 0, 70}));  // a window
    }
  };
  check_dims({}, {2u, 32u, 64u, 80u, 96u, 256u});
  check_dims({.plain = true}, {2u, 80u});
  for (const Tuning& tuning : reduction_tunings()) check_dims(tuning, {12u});
  check_attend({.attend_span = 64}, q4({{4, 2, 128}, 700}));            // in parts
  check_attend({}, q4({{4, 2, 80}, 1500, 16, 16, 1, 0, 300, 0, 320}));  // a ring
  check_attend({}, q4({{4, 2, 64}, 700, 1, 1, 20}));                    // nearly one-hot
  check_attend({}, q4({{4, 2, 64}, 300, 3, 16, 5, 0, 70, 50}));         // a soft-cap
  Case sinks = q4({{3, 1, 64}, 300, 5, 16});
  sinks.sinks = true;
  check_attend({}, sinks);
  // Keys and values of different types.
  for (const Format keys : kFormats)
    for (const Format values : kFormats)
      if (keys != values)
        for (const uint32_t dim : {12u, 64u}) check_attend({}, with({keys, values}, {{4, 2, dim}, 130}));
}

TEST_F(AttendTest, SoftCaps) {
  for (const bool plain : {false, true})
    for (const float scale : {0.1f, 5.0f, 200.0f}) {  // far above what the cap lets through
      Tuning tuning;
      tuning.plain = plain;
      check_attend(tuning, {{4, 2, 16}, 300, 1, 1, scale, 0, 0, 5});
      check_attend(tuning, {{4, 2, 16}, 300, 3, 16, scale, 0, 70, 50});
    }
}

TEST_F(AttendTest, Alibi) {
  for (const bool plain : {false, true})
    for (const uint32_t heads : {1u, 2u, 3u, 4u, 7u, 12u, 16u}) {
      Tuning tuning;
      tuning.plain = plain;
      Case c = {{heads, 1, 16}, 300, 5, 16};
      c.alibi = true;
      check_attend(tuning, c);
      c.window = 70;
      check_attend(tuning, c);
    }
}

Case of(ops::AttentionMask mask, const ops::HeadShape& shape, uint32_t pos, uint32_t active, uint32_t reach,
        uint32_t source = 0) {
  Case c = {shape, pos, active, 80};
  c.mask = mask, c.reach = reach, c.source = source;
  return c;
}

// Attention of encoders and of the decoders after them: to all positions, to another's, with biases by distance.
TEST_F(AttendTest, BothWaysToASourceAndBiased) {
  for (const bool plain : {false, true}) {
    Tuning tuning;
    tuning.plain = plain;
    for (const uint32_t active : {1u, 2u, 63u, 77u})
      for (const uint32_t reach : {0u, 1u, 20u, 128u}) {
        check_attend(tuning, of(ops::AttentionMask::none, {3, 3, 12}, 0, active, reach));
        check_attend(tuning, of(ops::AttentionMask::causal, {3, 3, 12}, 0, active, reach));
      }
    for (const uint32_t source : {1u, 64u, 300u, 513u})
      check_attend(tuning, of(ops::AttentionMask::source, {4, 2, 16}, 5, 2, 0, source));
    check_attend(tuning, of(ops::AttentionMask::causal, {4, 2, 16}, 290, 1, 40));
    check_attend(tuning, of(ops::AttentionMask::none, {4, 2, 16}, 290, 3, 40));
  }
}

TEST_F(AttendTest, WindowsBothWays) {
  for (const Tuning& tuning : attend_tunings())
    for (const uint32_t window : {1u, 2u, 33u, 64u, 76u, 77u, 500u})
      for (const uint32_t pos : {0u, 290u}) {
        Case c = of(ops::AttentionMask::none, {4, 2, 16}, pos, 77, 0);
        c.window = window;
        check_attend(tuning, c);
        c.shape = {3, 1, 64};
        c.active = 3, c.tokens = 3;
        check_attend(tuning, c);
      }
}

TEST_F(AttendTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer any(device, "any", 1 << 20, Memory::device);
  const auto run = [&](const ops::HeadShape& shape) {
    run_op(device, "attend", [&](Recorder& recorder) {
      ops::attend(recorder, shape, {1}, any, any, {any, any, 64}, any, 1);
    });
  };
  const auto windowed = [&](ops::AttentionMask mask) {
    run_op(device, "attend", [&](Recorder& recorder) {
      ops::attend(recorder, {4, 2, 16}, {1, 8, 0, false, mask, {}}, any, any, {any, any, 64}, any, 1);
    });
  };
  EXPECT_THROW(windowed(ops::AttentionMask::source), Error);
  EXPECT_THROW(run({4, 3, 16}), Error);   // heads in no whole groups
  EXPECT_THROW(run({4, 0, 16}), Error);   // none
  EXPECT_THROW(run({4, 2, 15}), Error);   // odd
  EXPECT_THROW(run({4, 2, 514}), Error);  // too wide
  EXPECT_THROW(run({4, 2, 0}), Error);    // of nothing
}

}  // namespace
}  // namespace weft::test
