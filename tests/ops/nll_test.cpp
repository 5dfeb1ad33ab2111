#include "reference/nll.h"

#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class NllTest : public GpuTest {};

struct Case {
  uint32_t rows, tokens, pos, end, first;
  float scale = 3, soft_cap = 0;
};

void check_nll(const Tuning& tuning, const Case& c) {
  SCOPED_TRACE(tuning.name() + " rows " + std::to_string(c.rows) + " tokens " + std::to_string(c.tokens) + " pos " +
               std::to_string(c.pos) + " end " + std::to_string(c.end) + " first " + std::to_string(c.first));
  const auto device = open_device(tuning);
  const uint32_t context = 64;
  Random random(c.rows + c.first);
  std::vector<uint32_t> history(context);
  for (uint32_t& id : history) id = random.below(c.rows);
  const uint32_t stride = stride_of(c.rows);
  const std::vector<float> logits = random.normals(size_t{c.tokens} * stride, c.scale);
  const Buffer state = make_state(device, c.pos, c.end, context), ids = upload(device, "history", history);
  const Buffer in = upload(device, "logits", logits), out = poisoned(device, "nll", context);
  run_op(device, reduction("nll", device->plan()), [&](Recorder& recorder) {
    ops::nll(recorder, state, ids, in, out, c.rows, c.first, c.tokens, nullptr, c.soft_cap);
  });
  std::vector<double> want(context, kUntouched), allowed(context, 0);
  for (uint32_t t = 0; t < c.tokens && c.pos + c.first + t + 1 < c.end; ++t) {
    const uint32_t position = c.pos + c.first + t;
    std::vector<float> row(&logits[size_t{t} * stride], &logits[size_t{t} * stride] + c.rows);
    if (c.soft_cap > 0)
      for (float& logit : row) logit = c.soft_cap * std::tanh(logit / c.soft_cap);
    want[position] = reference::nll(row, history[position + 1]);
    // Relative errors of the sum of exponentials become absolute ones of its logarithm; the logits themselves are
    // about 20.
    allowed[position] = dot_error(c.rows) + 1e-5 + 4 * kRounding * 8 * c.scale;
  }
  EXPECT_TRUE(close_to(download_as<float>(device, out), want, allowed));
}

TEST_F(NllTest, RowsAndPartialEnds) {
  for (const bool plain : {false, true})
    for (const uint32_t threads : {64u, 256u}) {
      Tuning tuning;
      tuning.plain = plain;
      tuning.reduce_threads = threads;
      for (const uint32_t rows : {1u, 3u, 65u, 300u, 5000u}) {
        check_nll(tuning, {rows, 1, 0, 2, 0});
        check_nll(tuning, {rows, 8, 3, 30, 0});
        check_nll(tuning, {rows, 8, 3, 30, 16});
        check_nll(tuning, {rows, 8, 3, 9, 0});    // 5 of 8 have a next token
        check_nll(tuning, {rows, 8, 3, 9, 8});    // none has
        check_nll(tuning, {rows, 8, 56, 64, 0});  // up to the end of the context
      }
    }
}

TEST_F(NllTest, SoftCaps) {
  check_nll({}, {300, 8, 3, 30, 0, 3, 5});
  check_nll({}, {300, 8, 3, 30, 0, 100, 30});
}

TEST_F(NllTest, FarLogits) {
  check_nll({}, {300, 8, 0, 20, 0, 100});
  check_nll({}, {300, 8, 0, 20, 0, 0});  // all the same: ln(rows)
}

}  // namespace
}  // namespace weft::test
