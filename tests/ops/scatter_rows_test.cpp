#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ScatterRowsTest : public GpuTest {};

TEST_F(ScatterRowsTest, ListedRowsAreInTheTablesOrder) {
  const auto device = open_device();
  for (const uint32_t rows : {1u, 64u, 900u, 5000u})
    for (const uint32_t count : {0u, 1u, rows / 3, rows}) {
      SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(rows));
      Random random(rows + count);
      std::vector<uint32_t> lists(LIST_WORDS(rows), 0xffffffffu), ids(rows);
      for (uint32_t i = 0; i < rows; ++i) ids[i] = i;
      for (uint32_t i = rows; i > 1; --i) std::swap(ids[i - 1], ids[random.below(i)]);
      for (uint32_t i = 0; i < count; ++i) lists[LIST_IDS(rows) + i] = ids[i];
      const std::vector<float> values = random.normals(rows);
      const Buffer state = make_state(device, 0, 1, 64), list = upload(device, "lists", lists),
                   listed = upload(device, "listed", values), logits = poisoned(device, "logits", rows);
      state.as<abi::StepState>()->head.exact_count = count;
      run_op(device, "scatter_rows",
             [&](Recorder& recorder) { ops::scatter_rows(recorder, state, list, listed, logits, rows); });
      std::vector<float> want(rows, -INFINITY);
      for (uint32_t i = 0; i < count; ++i) want[ids[i]] = values[i];
      EXPECT_EQ(download_as<float>(device, logits), want);
    }
}

TEST_F(ScatterRowsTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 1, 64), large(device, "large", 1 << 16, Memory::device),
               small(device, "small", 64, Memory::device);
  const auto run = [&](const Buffer& lists, const Buffer& listed, const Buffer& logits) {
    run_op(device, "scatter_rows",
           [&](Recorder& recorder) { ops::scatter_rows(recorder, state, lists, listed, logits, 100); });
  };
  EXPECT_THROW(run(small, large, large), Error);
  EXPECT_THROW(run(large, small, large), Error);
  EXPECT_THROW(run(large, large, small), Error);
}

}  // namespace
}  // namespace weft::test
