#include "reference/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/filter.h"
#include "shaders/narrowed.h"
#include "support/op_sampler.h"

namespace weft::test {
namespace {

class LogprobsTest : public GpuTest {};

struct Case {
  Tuning tuning;
  uint32_t wanted;
  float soft_cap = 0;
  bool listed = false;  // every third id, in a mixed order
};

// sample's candidates for a greedy choice, then log-probabilities; chosen: the greatest logit.
void check_logprobs(const std::vector<float>& logits, const Case& c) {
  SCOPED_TRACE(c.tuning.name() + " " + std::to_string(logits.size()) + " rows, " + std::to_string(c.wanted) +
               " wanted, soft-cap " + std::to_string(c.soft_cap) + (c.listed ? " listed" : ""));
  const auto device = open_device(c.tuning);
  const auto rows = static_cast<uint32_t>(logits.size());
  abi::SampleParams params = no_sampling();
  params.logprobs = c.wanted;
  params.soft_cap = c.soft_cap;
  std::vector<float> in = logits, all(rows, NAN);  // all: as the reference sees them
  std::vector<uint32_t> lists(LIST_WORDS(rows), kPoison);
  uint32_t count = rows;
  if (c.listed) {
    count = 0;
    for (uint32_t id = rows; id-- > 0;)
      if (id % 3 == 1) {
        lists[LIST_IDS(rows) + count] = id;
        in[count++] = all[id] = logits[id];
      }
  } else {
    all = logits;
  }
  const Buffer state = make_state(device, 20, 21, 100);
  state.as<abi::StepState>()->head.exact_count = count;
  const Buffer sampling = upload(device, "params", std::vector{params}), values = upload(device, "logits", in);
  const Buffer list = upload(device, "lists", lists);
  const Buffer candidates = poisoned(device, "candidates", 2 * ops::candidate_count(rows));
  const Buffer out = poisoned(device, "out", RING * sizeof(abi::TokenLogprobs) / 4);
  const Buffer scores = upload(device, "scores", std::vector<float>(ops::score_bytes(rows) / 4));
  const View lists_view = list;
  const ops::Selectable from = {rows, c.listed ? &lists_view : nullptr};
  run_op(device, "sample, " + reduction("logprobs", device->plan()), [&](Recorder& recorder) {
    ops::sample(recorder, state, sampling, values, candidates, from);
    ops::logprobs(recorder, state, sampling, values, candidates, scores, out, from);
  });
  const View narrowed = ops::filter_scratch(scores, rows).part(0, sizeof(abi::Narrowed));
  for (const uint32_t word : download_as<uint32_t>(device, narrowed)) ASSERT_EQ(word, 0u) << "the next token needs it";
  const std::vector<uint32_t> words = download_as<uint32_t>(device, out);
  const size_t size = sizeof(abi::TokenLogprobs) / 4, slot = 21 % RING;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool written = i / size == slot;
    ASSERT_TRUE(written || words[i] == kPoison) << i;
  }
  abi::TokenLogprobs got;
  std::memcpy(&got, &words[slot * size], sizeof got);
  const auto want = reference::logprobs(all, c.soft_cap);
  ASSERT_EQ(got.count, std::min<size_t>(want.size(), c.wanted));
  // The sum's rounding, and where soft-caps cancel that of logits up to the cap.
  const double allowed = 2e-6 + dot_error(rows) + 40 * kRounding * (c.soft_cap + 20);
  ASSERT_FALSE(want.empty());
  EXPECT_NEAR(got.chosen, want[0].second, allowed);
  for (uint32_t i = 0; i < got.count; ++i) {
    EXPECT_EQ(got.ids[i], want[i].first) << i;
    EXPECT_NEAR(got.logprobs[i], want[i].second, allowed + std::abs(want[i].second) * 4 * kRounding) << i;
  }
}

TEST_F(LogprobsTest, TheLikeliestInOrder) {
  for (const bool plain : {false, true})
    for (const uint32_t rows : {2u, 5u, 63u, 1025u, 3000u, 9001u})
      for (const bool listed : {false, true}) {
        Random random(rows);
        const std::vector<float> logits = random.normals(rows, 4);
        check_logprobs(logits, {{.plain = plain}, MAX_LOGPROBS, 0, listed});
        check_logprobs(logits, {{.plain = plain}, 3, 5, listed});
      }
}

TEST_F(LogprobsTest, TiesAndWhatIsNotFinite) {
  std::vector<float> logits(500);
  Random random(3);
  for (float& logit : logits) logit = static_cast<float>(random.below(5));
  check_logprobs(logits, {{}, 20});
  for (size_t i = 0; i < logits.size(); i += 2) logits[i] = i % 4 == 0 ? NAN : INFINITY;
  check_logprobs(logits, {{}, 20});
  check_logprobs({NAN, 2, INFINITY, 1}, {{}, 20});
}

// After the end of a text, nothing is written: the last token's may not be read yet.
TEST_F(LogprobsTest, FinishedTextsStay) {
  const auto device = open_device();
  abi::SampleParams params = no_sampling();
  params.logprobs = 2;
  const Buffer state = make_state(device, 20, 21, 100);
  state.as<abi::StepState>()->finished = FINISH_STOP;
  const Buffer sampling = upload(device, "params", std::vector{params});
  const Buffer values = upload(device, "logits", std::vector<float>{1, 2, 3});
  const Buffer candidates = upload(device, "candidates", std::vector<abi::Candidate>{{3, 2}});
  const Buffer out = poisoned(device, "out", RING * sizeof(abi::TokenLogprobs) / 4);
  const Buffer scores(device, "scores", ops::score_bytes(3), Memory::device);
  run_op(device, reduction("logprobs", device->plan()),
         [&](Recorder& recorder) { ops::logprobs(recorder, state, sampling, values, candidates, scores, out, {3}); });
  for (const uint32_t word : download_as<uint32_t>(device, out)) ASSERT_EQ(word, kPoison);
}

}  // namespace
}  // namespace weft::test
