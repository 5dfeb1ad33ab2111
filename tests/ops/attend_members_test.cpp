// Sessions of a batch whose caches lie side by side: rope and attend give for all of them at once, to the last bit,
// what they give for each alone, which their own tests compare with the reference.
#include <algorithm>
#include <numbers>

#include "base/half.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class AttendMembersTest : public GpuTest {};

struct Case {
  ops::HeadShape shape;
  uint32_t rotary_dim;
  uint32_t tokens = 1;  // of each session
  ops::CacheFormat format = {};
  ops::Attention attention = {0.2f};
  uint32_t capacity = 512;
  bool fused = false;
};

constexpr uint32_t kContext = 600;

// A session: its position, its number of tokens, and its place among the caches, of which one more is free.
struct Member {
  uint32_t pos, active, slot;
};
constexpr Member kMembers[] = {{0, 1, 3}, {64, 2, 0}, {500, 3, 4}, {299, 1, 1}};
constexpr uint32_t kSlots = 5;

struct Result {
  std::vector<uint32_t> y, keys, values;
};

class Inputs {
 public:
  Inputs(const std::shared_ptr<Device>& device, const Case& c) : device_(device), c_(c) {
    const ops::HeadShape& s = c.shape;
    const uint32_t q_dim = s.heads * s.head_dim, kv_dim = s.kv_heads * s.head_dim;
    const uint32_t rows = static_cast<uint32_t>(std::size(kMembers)) * c.tokens;
    Random random(s.head_dim + c.tokens);
    qkv_ = make_activations(device, rows, rows, q_dim + 2 * kv_dim, random);
    std::vector<float> table;
    for (uint32_t i = 0; i < kContext * c.rotary_dim / 2; ++i) {
      const double angle = std::numbers::pi * random.normal();
      table.insert(table.end(), {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
    rope_table_ = upload(device, "rope_table", table);
    keys_ = words(ops::key_bytes(s, c.capacity, c.format.keys), random);
    values_ = words(ops::value_bytes(s, c.capacity, c.format.values), random);
  }

  Result run(bool together) const {
    const uint32_t q_dim = c_.shape.heads * c_.shape.head_dim, members = std::size(kMembers);
    const Buffer keys = upload(device_, "keys", keys_), values = upload(device_, "values", values_);
    const Buffer q = poisoned(device_, "q", uint64_t{members} * c_.tokens * stride_of(q_dim));
    const Buffer y = poisoned(device_, "y", uint64_t{members} * c_.tokens * stride_of(q_dim));
    const uint64_t part_bytes = ops::part_bytes(device_->plan(), c_.shape, c_.capacity, members * c_.tokens);
    const Buffer parts = upload(device_, "parts", std::vector<float>(std::max<uint64_t>(part_bytes / 4, 1)));
    std::vector<abi::BatchMember> list;
    std::vector<Buffer> states;
    for (uint32_t i = 0; i < members; ++i) {
      const Member& m = kMembers[i];
      list.push_back({m.pos, m.pos + std::min(m.active, c_.tokens), 0, kContext, m.slot, i, {}});
      states.push_back(make_state(device_, m.pos, list.back().end, kContext));
    }
    std::ranges::reverse(list);  // the list's order is not that of the rows
    const Buffer member_list = upload(device_, "members", list);
    const auto part = [](const Buffer& buffer, uint64_t count, uint64_t i) {
      return View(buffer).part(i * (buffer.bytes() / count), buffer.bytes() / count);
    };
    const std::string rope = texels(64) ? "rope texel, " : "rope, ";
    const std::string attend =
        texels(c_.format == Format::q4 ? 64 : 16) ? "attend texel" : reduction("attend", device_->plan());
    run_op(device_, c_.fused ? attend : rope + attend, [&](Recorder& r) {
      if (together) {
        record(r, member_list, qkv_.buffer, q, y, {keys, values, c_.capacity, c_.format, parts, c_.tokens},
               members * c_.tokens);
        return;
      }
      for (uint32_t i = 0; i < members; ++i)
        record(r, states[i], part(qkv_.buffer, members, i), part(q, members, i), part(y, members, i),
               {part(keys, kSlots, kMembers[i].slot), part(values, kSlots, kMembers[i].slot), c_.capacity, c_.format,
                parts},
               c_.tokens);
    });
    return {download_as<uint32_t>(device_, y), download_as<uint32_t>(device_, keys),
            download_as<uint32_t>(device_, values)};
  }

 private:
  // Halves of any size that is not huge, in every slot of every cache.
  static std::vector<float> words(uint64_t bytes, Random& random) {
    std::vector<float> words(kSlots * bytes / 4);
    for (float& word : words) {
      const uint32_t low = float_to_half(random.normal()), high = float_to_half(random.normal());
      word = std::bit_cast<float>(low | high << 16);
    }
    return words;
  }
  bool texels(uint32_t block_dims) const {
    return device_->plan().texel_products && c_.shape.head_dim % (c_.format == Format::f16 ? 8 : block_dims) == 0;
  }
  void record(Recorder& r, const View& state, const View& qkv, const View& q, const View& y,
              const ops::CacheView& cache, uint32_t tokens) const {
    const ops::FusedRope rope = {ops::Pairs::halves, c_.rotary_dim, rope_table_};
    if (!c_.fused) ops::rope(r, c_.shape, ops::Pairs::halves, c_.rotary_dim, state, qkv, rope_table_, q, cache, tokens);
    ops::attend(r, c_.shape, c_.attention, state, c_.fused ? qkv : q, cache, y, tokens, c_.fused ? &rope : nullptr);
  }

  std::shared_ptr<Device> device_;
  const Case& c_;
  Activations qkv_;
  Buffer rope_table_;
  std::vector<float> keys_, values_;
};

void check(const Tuning& tuning, const Case& c) {
  SCOPED_TRACE(tuning.name() + " heads " + std::to_string(c.shape.heads) + "/" + std::to_string(c.shape.kv_heads) +
               " dim " + std::to_string(c.shape.head_dim) + " tokens " + std::to_string(c.tokens) + " " +
               name(c.format) + (c.fused ? " fused" : ""));
  const Inputs inputs(open_device(tuning), c);
  const Result want = inputs.run(false), got = inputs.run(true);
  EXPECT_EQ(got.y, want.y);
  EXPECT_EQ(got.keys, want.keys);
  EXPECT_EQ(got.values, want.values);
}

TEST_F(AttendMembersTest, AreAsEachByItself) {
  for (Tuning tuning : attend_tunings()) {
    tuning.attend_span = 0;
    check(tuning, {.shape = {9, 3, 64}, .rotary_dim = 64, .fused = true});
    check(tuning, {.shape = {3, 3, 12}, .rotary_dim = 8, .tokens = 4, .format = Format::q8});
    tuning.attend_span = 128;  // some sessions have several parts
    check(tuning, {.shape = {9, 3, 64}, .rotary_dim = 64, .fused = true});
    if (tuning.plain) continue;
    check(tuning, {.shape = {9, 3, 64}, .rotary_dim = 64, .tokens = 2});
    check(tuning, {.shape = {4, 2, 64}, .rotary_dim = 64, .format = Format::q8});
    check(tuning, {.shape = {4, 2, 64}, .rotary_dim = 64, .tokens = 2, .format = Format::q4});
    check(tuning,
          {.shape = {3, 1, 256}, .rotary_dim = 256, .attention = {0.2f, 100, 30}, .capacity = 128, .fused = true});
    check(tuning, {.shape = {3, 3, 12}, .rotary_dim = 8, .tokens = 2, .attention = {0.2f, 0, 0, true}});
  }
}

TEST_F(AttendMembersTest, RefusesTokensOfNobody) {
  const auto device = open_device();
  const Buffer any(device, "any", 1 << 20, Memory::device);
  EXPECT_THROW(run_op(device, "attend",
                      [&](Recorder& recorder) {
                        ops::attend(recorder, {4, 2, 16}, {1}, any, any, {any, any, 64, Format::f16, {}, 2}, any, 5);
                      }),
               Error);
}

}  // namespace
}  // namespace weft::test
