#include "support/op_inputs.h"

namespace weft::test {
namespace {

class InsertRowsTest : public GpuTest {};

// Soft tokens get their rows, in any order, or have them added; tokens of the vocabulary, those after the context, rows
// that do not exist and the padding stay as they are.
TEST_F(InsertRowsTest, ReplacesTheRowsOfSoftTokens) {
  const auto device = open_device();
  for (const uint32_t cols : {1u, 31u, 64u, 65u, 172u, 576u})
    for (const uint32_t pos : {0u, 1u, 4u}) {
      const auto output = pos == 1 ? ops::Output::add : ops::Output::write;
      SCOPED_TRACE("cols " + std::to_string(cols) + " pos " + std::to_string(pos));
      Random random(cols + pos);
      const uint32_t stride = stride_of(cols);
      const std::vector<float> rows = random.normals(3 * size_t{stride}), before = random.normals(8 * size_t{stride});
      const std::vector<uint32_t> ids = {SOFT_ID, 7, SOFT_ID + 2, SOFT_ID + 1, 0, SOFT_ID + 3, SOFT_ID + 1, SOFT_ID};
      const uint32_t end = 7;  // the last one is after the context
      const Buffer state = make_state(device, pos, end, 100), history = upload(device, "history", ids),
                   table = upload(device, "rows", rows), x = upload(device, "x", before);
      run_op(device, "insert_rows",
             [&](Recorder& recorder) { ops::insert_rows(recorder, state, history, table, x, cols, 8, output); });
      const std::vector<float> got = download_as<float>(device, x);
      for (uint32_t t = 0; t < 8; ++t)
        for (uint32_t i = 0; i < stride; ++i) {
          const bool inserts = pos + t < end && ids[pos + t] >= SOFT_ID && ids[pos + t] < SOFT_ID + 3 && i < cols;
          const float own = inserts ? rows[(ids[pos + t] - SOFT_ID) * stride + i] : 0, old = before[t * stride + i];
          const float want = !inserts ? old : output == ops::Output::add ? old + own : own;
          ASSERT_EQ(got[t * stride + i], want) << t << ", " << i;
        }
    }
}

}  // namespace
}  // namespace weft::test
