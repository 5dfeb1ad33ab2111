#include "support/op_inputs.h"

namespace weft::test {
namespace {

class FollowRowsTest : public GpuTest {};

// state.path of these rows, by depth from 1 on.
uint32_t path_of(const std::vector<uint32_t>& rows) {
  uint32_t path = static_cast<uint32_t>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) path |= rows[i] << (4 * (i + 1));
  return path;
}

TEST_F(FollowRowsTest, ChosenRowsComeToTheirDepth) {
  const auto device = open_device();
  for (const std::vector<uint32_t>& path : std::vector<std::vector<uint32_t>>{
           {}, {1}, {3}, {1, 2, 3, 4, 5, 6, 7}, {2, 4, 6}, {1, 5, 7}, {2, 3, 4, 5, 6, 7}})
    for (const auto& [first, last] : {std::pair{1u, 7u}, {1u, 1u}, {2u, 3u}}) {
      constexpr uint32_t kWords = 70, kStride = 96;
      std::vector<uint32_t> rows(TREE_ROWS * kStride);
      for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
      const Buffer state = make_state(device, 0, 1, 64), buffer = upload(device, "rows", rows);
      state.as<abi::StepState>()->path = path_of(path);
      run_op(device, "follow_rows", [&, first = first, last = last](Recorder& recorder) {
        ops::follow_rows(recorder, state, buffer, kWords, kStride, first, last);
      });
      std::vector<uint32_t> want = rows;
      for (uint32_t depth = first; depth <= std::min<size_t>(last, path.size()); ++depth)
        for (uint32_t i = 0; i < kWords; ++i) want[depth * kStride + i] = rows[path[depth - 1] * kStride + i];
      EXPECT_EQ(download_as<uint32_t>(device, buffer), want) << path.size() << " rows from depth " << first;
    }
}

TEST_F(FollowRowsTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 1, 64), small(device, "small", 8 * 64 * 4, Memory::device);
  const auto run = [&](uint32_t words, uint32_t stride, uint32_t first, uint32_t last) {
    run_op(device, "follow_rows",
           [&](Recorder& recorder) { ops::follow_rows(recorder, state, small, words, stride, first, last); });
  };
  EXPECT_NO_THROW(run(64, 64, 1, 7));
  EXPECT_THROW(run(65, 64, 1, 7), Error);
  EXPECT_THROW(run(64, 65, 1, 7), Error);
  EXPECT_THROW(run(64, 64, 0, 7), Error);
  EXPECT_THROW(run(64, 64, 1, 8), Error);
}

}  // namespace
}  // namespace weft::test
