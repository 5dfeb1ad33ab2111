#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/filter.h"
#include "shaders/narrowed.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class TimestampsTest : public GpuTest {};

constexpr float kNever = -std::numeric_limits<float>::infinity();

// With the given lead, in nats, of all timestamps over the best other row. listed: every third id, in a mixed order.
void check_timestamps(const Tuning& tuning, uint32_t rows, uint32_t first, double lead, bool listed) {
  SCOPED_TRACE(tuning.name() + " " + std::to_string(rows) + " rows, timestamps from " + std::to_string(first) +
               ", lead " + std::to_string(lead) + (listed ? " listed" : ""));
  const auto device = open_device(tuning);
  Random random(rows + first);
  std::vector<uint32_t> ids;
  for (uint32_t id = rows; id-- > 0;)
    if (!listed || id % 3 == 1) ids.push_back(id);
  if (!listed) std::ranges::reverse(ids);
  std::vector<float> logits(rows, NAN);  // after the listed ones there is anything
  double sum = 0, other = kNever;
  for (size_t i = 0; i < ids.size(); ++i) {
    logits[i] = i % 7 == 5 ? kNever : 3 * random.normal();  // some may not follow
    if (ids[i] >= first)
      sum += std::exp(double{logits[i]});
    else
      other = std::max(other, double{logits[i]});
  }
  const bool both = sum > 0 && other > kNever;
  if (both)  // moves the timestamps to the lead
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= first) logits[i] += static_cast<float>(other + lead - std::log(sum));
  std::vector<float> want = logits;
  if (sum > 0 && (!both || lead > 0))
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < first) want[i] = kNever;
  std::vector<uint32_t> lists(LIST_WORDS(rows), kPoison);
  std::ranges::copy(ids, lists.begin() + LIST_IDS(rows));
  const Buffer state = make_state(device, 20, 21, 100);
  state.as<abi::StepState>()->head.exact_count = static_cast<uint32_t>(ids.size());
  const Buffer values = upload(device, "logits", logits), list = upload(device, "lists", lists);
  const Buffer scores = upload(device, "scores", std::vector<float>(ops::score_bytes(rows) / 4));
  const View lists_view = list;
  run_op(device, reduction("timestamps", device->plan()), [&](Recorder& recorder) {
    ops::timestamps(recorder, state, values, scores, first, {rows, listed ? &lists_view : nullptr});
  });
  const View narrowed = ops::filter_scratch(scores, rows).part(0, sizeof(abi::Narrowed));
  for (const uint32_t word : download_as<uint32_t>(device, narrowed)) ASSERT_EQ(word, 0u) << "the next token needs it";
  const std::vector<float> got = download_as<float>(device, values);
  for (size_t i = 0; i < rows; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << "place " << i;
}

TEST_F(TimestampsTest, TogetherLikelierThanTheBestOther) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t rows : {7u, 300u, 9001u})
      for (const double lead : {-1e-3, 1e-3, -20.0, 20.0})
        for (const bool listed : {false, true})
          for (const uint32_t first : {0u, 1u, rows / 2, rows - 1, rows})
            check_timestamps(tuning, rows, first, lead, listed);
}

TEST_F(TimestampsTest, RefusesTooFewLogits) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 1, 10), small(device, "small", 256, Memory::device);
  const Buffer large(device, "large", ops::score_bytes(65), Memory::device);
  const auto run = [&](const Buffer& logits, const Buffer& scores) {
    run_op(device, "timestamps", [&](Recorder& r) { ops::timestamps(r, state, logits, scores, 10, {65}); });
  };
  EXPECT_THROW(run(small, large), Error);
  EXPECT_THROW(run(large, small), Error);
}

}  // namespace
}  // namespace weft::test
