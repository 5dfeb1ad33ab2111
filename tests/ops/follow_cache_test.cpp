#include <initializer_list>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class FollowCacheTest : public GpuTest {};

// Keys and values of the rows 1, 3 and 6 of a tree must come to lie where rope writes those of a chain of these three,
// and nothing else changes. Rope without a rotation, so that only places differ.
void check(const ops::HeadShape& shape, const ops::CacheFormat& format, uint32_t root, uint32_t capacity) {
  SCOPED_TRACE(std::to_string(shape.head_dim) + " dimensions, " + name(format) + ", after " + std::to_string(root));
  const auto device = open_device();
  const std::vector<uint32_t> path = {1, 3, 6};
  const uint32_t q_dim = shape.heads * shape.head_dim, cols = q_dim + 2 * shape.kv_heads * shape.head_dim;
  Random random(shape.head_dim + root);
  const Activations rows = make_activations(device, TREE_ROWS, TREE_ROWS, cols, random);
  reference::Rows few(path.size() + 1, cols);
  for (uint32_t depth = 0; depth <= path.size(); ++depth)
    std::ranges::copy(rows.values.row(depth == 0 ? 0 : path[depth - 1]), few.row(depth).begin());
  const Activations chain = make_activations(device, static_cast<uint32_t>(path.size()) + 1, few);
  const Buffer q(device, "q", uint64_t{TREE_ROWS} * stride_of(q_dim) * 4, Memory::device);
  const auto cache = [&](const char* label, uint64_t bytes) { return poisoned(device, label, bytes / 4); };
  const uint64_t key_bytes = ops::key_bytes(shape, capacity, format.keys),
                 value_bytes = ops::value_bytes(shape, capacity, format.values);
  const Buffer keys = cache("keys", key_bytes), values = cache("values", value_bytes);
  const Buffer want_keys = cache("keys", key_bytes), want_values = cache("values", value_bytes);
  const Buffer state = make_state(device, root, root + TREE_ROWS, root + TREE_ROWS);
  abi::StepState& changed = *state.as<abi::StepState>();
  changed.root = root;
  changed.path = 3 | path[0] << 4 | path[1] << 8 | path[2] << 12;
  const auto write = [&](const Buffer& from, const Buffer& to_keys, const Buffer& to_values, uint32_t tokens) {
    run_once(device, "rope", [&](Recorder& recorder) {
      ops::rope(recorder, shape, ops::Pairs::halves, 0, state, from, state, q, {to_keys, to_values, capacity, format},
                tokens);
    });
  };
  write(rows.buffer, keys, values, TREE_ROWS);
  write(rows.buffer, want_keys, want_values, TREE_ROWS);
  write(chain.buffer, want_keys, want_values, static_cast<uint32_t>(path.size()) + 1);
  run_op(device, "follow_cache", [&](Recorder& recorder) {
    ops::follow_cache(recorder, shape, state, {keys, values, capacity, format});
  });
  EXPECT_EQ(download_as<uint32_t>(device, keys), download_as<uint32_t>(device, want_keys));
  EXPECT_EQ(download_as<uint32_t>(device, values), download_as<uint32_t>(device, want_values));
}

TEST_F(FollowCacheTest, ChosenRowsComeToTheirSlots) {
  for (const ops::CacheFormat& format : std::initializer_list<ops::CacheFormat>{
           Format::f16, Format::q8, Format::q4, {Format::f16, Format::q4}, {Format::q4, Format::f16}})
    for (const uint32_t dim : {12u, 64u, 80u, 128u})
      for (const uint32_t root : {0u, 61u, 1021u}) check({4, 2, dim}, format, root, root == 1021 ? 128 : 192);
}

TEST_F(FollowCacheTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 1, 64), small(device, "small", 4096, Memory::device);
  const auto run = [&](const ops::HeadShape& shape, uint32_t capacity) {
    run_op(device, "follow_cache", [&](Recorder& recorder) {
      ops::follow_cache(recorder, shape, state, {small, small, capacity});
    });
  };
  EXPECT_NO_THROW(run({2, 2, 16}, 64));
  EXPECT_THROW(run({2, 2, 18}, 64), Error);
  EXPECT_THROW(run({2, 2, 16}, 63), Error);
}

}  // namespace
}  // namespace weft::test
