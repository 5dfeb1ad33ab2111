// The gated short convolution against its reference: whole texts at once and in passes, and sessions of a batch.
#include "reference/short_conv.h"

#include <algorithm>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ShortConvTest : public GpuTest {};

constexpr uint32_t kContext = 400;

struct Case {
  ops::ConvShape shape;
  uint32_t capacity = 16;
};

// A text's gates, and what they should become.
struct Text {
  Text(const ops::ConvShape& shape, uint32_t length, Random& random) : gates(length, 3 * shape.cols) {
    for (double& value : gates.values) value = random.normal();
  }
  reference::Rows part(uint32_t first, uint32_t count) const {
    reference::Rows rows(count, gates.cols);
    std::copy_n(gates.values.begin() + first * gates.cols, count * gates.cols, rows.values.begin());
    return rows;
  }
  reference::Rows gates;
};

struct Weights {
  Weights(const std::shared_ptr<Device>& device, const ops::ConvShape& shape, Random& random)
      : kernel(doubles(random.normals(shape.cols * shape.taps))),
        bias(shape.biased ? doubles(random.normals(shape.cols)) : std::vector<double>()) {
    std::vector<float> values(kernel.begin(), kernel.end());
    values.insert(values.end(), bias.begin(), bias.end());
    buffer = upload(device, "kernel", values);
  }
  std::vector<double> kernel, bias;
  Buffer buffer;
};

// Passes of `pass` tokens over a text. taken_back: number of tokens of each pass that the next one computes again,
// after other tokens were in their place, as those of a rejected draft.
void check_text(const Case& c, uint32_t length, uint32_t pass, uint32_t taken_back = 0) {
  SCOPED_TRACE("cols " + std::to_string(c.shape.cols) + " taps " + std::to_string(c.shape.taps) + " length " +
               std::to_string(length) + " pass " + std::to_string(pass) + " taken back " + std::to_string(taken_back));
  const auto device = open_device();
  Random random(c.shape.cols + pass);
  const Text text(c.shape, length, random), other(c.shape, length, random);
  const Weights weights(device, c.shape, random);
  const Buffer kept = poisoned(device, "kept", ops::conv_input_bytes(c.shape.cols, c.capacity) / 4);
  const reference::Rows want = reference::short_conv(text.gates, weights.kernel, weights.bias);
  for (uint32_t pos = 0; pos < length;) {
    const uint32_t count = std::min(pass, length - pos);
    const uint32_t good = pos + count < length ? count - std::min(taken_back, count - 1) : count;
    reference::Rows rows = text.part(pos, count);
    const reference::Rows refused = other.part(pos, count);
    std::copy(refused.values.begin() + good * rows.cols, refused.values.end(), rows.values.begin() + good * rows.cols);
    const Activations gates = make_activations(device, pass, rows);
    const Buffer state = make_state(device, pos, pos + count, kContext);
    const uint32_t stride = stride_of(c.shape.cols);
    const Buffer y = poisoned(device, "y", uint64_t{pass} * stride);
    run_op(device, "short_conv", [&](Recorder& r) {
      ops::short_conv(r, c.shape, state, gates.buffer, weights.buffer, {kept, c.capacity}, y, pass);
    });
    std::vector<float> got = download_as<float>(device, y);
    for (uint32_t t = count; t < pass; ++t)
      for (uint32_t i = 0; i < stride; ++i) EXPECT_TRUE(is_poison(got[t * stride + i]));
    got.resize(size_t{good} * stride);
    reference::Rows expected(good, c.shape.cols);
    std::copy_n(want.values.begin() + pos * c.shape.cols, good * c.shape.cols, expected.values.begin());
    std::vector<double> tolerance(size_t{good} * stride, 2e-5);
    EXPECT_TRUE(close_to(got, padded(expected, good, stride), tolerance)) << "from " << pos;
    pos += good;
  }
}

TEST_F(ShortConvTest, TextsInPasses) {
  for (const Case& c : {Case{{48, 3}}, Case{{64, 4, true}}, Case{{130, 1}, 8}, Case{{33, 9, true}, 24}, Case{{65, 2}}})
    for (const uint32_t pass : {1u, 2u, 7u, 8u, 9u, 64u, 128u}) check_text(c, 150, pass);
}

TEST_F(ShortConvTest, RefusedTokensAreWrittenAgain) {
  for (const Case& c : {Case{{48, 3}}, Case{{33, 9, true}, 24}})
    for (const uint32_t refused : {1u, 3u, 7u}) check_text(c, 60, 8, refused);
}

// Sessions whose kept inputs lie side by side give the same bits as each alone.
TEST_F(ShortConvTest, SessionsOfABatch) {
  const Case c = {{72, 3, true}};
  const auto device = open_device();
  struct Member {
    uint32_t pos, active, slot;
  };
  constexpr Member kMembers[] = {{0, 1, 3}, {64, 2, 0}, {300, 4, 4}, {1, 3, 1}};
  constexpr uint32_t kSlots = 5, kCount = std::size(kMembers);
  for (const uint32_t tokens : {1u, 2u, 4u, 8u}) {
    SCOPED_TRACE(tokens);
    Random random(tokens);
    const Weights weights(device, c.shape, random);
    const Activations gates = make_activations(device, kCount * tokens, kCount * tokens, 3 * c.shape.cols, random);
    const std::vector<float> before = random.normals(kSlots * ops::conv_input_bytes(c.shape.cols, c.capacity) / 4);
    const auto run = [&](bool together) {
      const Buffer kept = upload(device, "kept", before);
      const Buffer y = poisoned(device, "y", uint64_t{kCount} * tokens * stride_of(c.shape.cols));
      std::vector<abi::BatchMember> list;
      std::vector<Buffer> states;
      for (uint32_t i = 0; i < kCount; ++i) {
        const Member& m = kMembers[i];
        const uint32_t end = m.pos + std::min(m.active, tokens);
        list.push_back({m.pos, end, 0, kContext, m.slot, i, {}});
        states.push_back(make_state(device, m.pos, end, kContext));
      }
      std::ranges::reverse(list);  // the list's order is not that of the rows
      const Buffer members = upload(device, "members", list);
      const auto part = [](const Buffer& buffer, uint64_t count, uint64_t i) {
        return View(buffer).part(i * (buffer.bytes() / count), buffer.bytes() / count);
      };
      run_op(device, "short_conv", [&](Recorder& r) {
        if (together)
          return ops::short_conv(r, c.shape, members, gates.buffer, weights.buffer, {kept, c.capacity, tokens}, y,
                                 kCount * tokens);
        for (uint32_t i = 0; i < kCount; ++i)
          ops::short_conv(r, c.shape, states[i], part(gates.buffer, kCount, i), weights.buffer,
                          {part(kept, kSlots, kMembers[i].slot), c.capacity}, part(y, kCount, i), tokens);
      });
      return std::pair(download_as<uint32_t>(device, y), download_as<uint32_t>(device, kept));
    };
    EXPECT_EQ(run(true), run(false));
  }
}

}  // namespace
}  // namespace weft::test
