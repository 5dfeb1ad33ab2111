// The head that takes the least time: which one the trials find, what they cost, and that they do not change a text.
#include <random>

#include "session/lookup.h"
#include "support/model_test.h"
#include "vocab/heads/trials.h"

namespace weft::test {
namespace {

// Generates `tokens` tokens; one by head h takes seconds(h). Returns their sum. The first token of a stretch is not
// timed.
template <class Seconds>
double pass(HeadTrials& trials, size_t tokens, const Seconds& seconds) {
  double sum = 0;
  bool first = true;
  for (size_t i = 0; i < tokens; ++i) {
    const size_t left = trials.left();
    const double taken = seconds(trials.head());
    sum += taken;
    trials.passed(first ? std::nullopt : std::optional(taken));
    first = trials.left() != left - 1;
  }
  return sum;
}

TEST(HeadTrialsTest, FindsTheFastest) {
  for (size_t fastest = 0; fastest < 3; ++fastest) {
    HeadTrials trials(3);
    pass(trials, 100, [&](size_t head) { return head == fastest ? 0.9 : 1.0 + 0.1 * static_cast<double>(head); });
    EXPECT_EQ(trials.head(), fastest);
  }
}

TEST(HeadTrialsTest, ShortAnswersHaveNoTrial) {
  HeadTrials trials(2);
  EXPECT_EQ(pass(trials, 16, [](size_t head) { return head == 0 ? 1.0 : 100.0; }), 16);
}

TEST(HeadTrialsTest, WhatGainsNextToNothingIsNotWorthIt) {
  HeadTrials trials(2);
  pass(trials, 100, [](size_t head) { return head == 0 ? 1.0 : 0.985; });
  EXPECT_EQ(trials.head(), 0u);
}

// A head that takes four times as long: a turn each in a trial, and trials become rare.
TEST(HeadTrialsTest, TrialsCostLittle) {
  HeadTrials trials(2);
  const auto seconds = [](size_t head) { return head == 0 ? 1.0 : 4.0; };
  EXPECT_LT(pass(trials, 256, seconds), 256 * 1.1);
  EXPECT_LT(pass(trials, 20000, seconds), 20000 * 1.01);
  HeadTrials near(2);  // one that a trial does not give up at once
  EXPECT_LT(pass(near, 500, [](size_t head) { return head == 0 ? 1.0 : 1.15; }), 500 * 1.02);
}

TEST(HeadTrialsTest, DelaysOfOtherProgramsDecideNothing) {
  std::mt19937 random(1);
  size_t right = 0;
  for (int run = 0; run < 100; ++run) {
    HeadTrials trials(2);
    pass(trials, 100, [&](size_t head) { return (head == 0 ? 1.0 : 0.8) * (random() % 6 == 0 ? 3 : 1); });
    right += trials.head() == 1 ? 1 : 0;
  }
  EXPECT_GE(right, 90u);
}

TEST(HeadTrialsTest, ChangesItsMind) {
  HeadTrials trials(2);
  pass(trials, 100, [](size_t head) { return head == 0 ? 1.0 : 0.5; });
  EXPECT_EQ(trials.head(), 1u);
  pass(trials, 300, [](size_t head) { return head == 0 ? 1.0 : 1.5; });
  EXPECT_EQ(trials.head(), 0u);
}

TEST(HeadTrialsTest, TokensWithoutATimeChangeNothing) {
  HeadTrials trials(2);
  for (int i = 0; i < 1000; ++i) trials.passed(std::nullopt);
  EXPECT_LE(trials.head(), 1u);
  pass(trials, 3000, [](size_t head) { return head == 0 ? 1.0 : 0.5; });
  EXPECT_EQ(trials.head(), 1u);
}

class AutoHeadTest : public GpuTest {
 protected:
  static constexpr uint32_t kTokens = 64;
  AutoHeadTest() {
    LlamaShape shape;
    shape.vocab = 777;
    shape.context = 512;
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", Format::q8);
  }
  static VocabHead automatic(VocabHead::Mode mode) {
    VocabHead head;
    head.mode = mode;
    head.automatic = true;
    return head;
  }
  std::vector<uint32_t> text(Session& session, const Sampling& sampling) {
    session.set_sampling(sampling);
    return generate(session, some_ids(9, model_->config.vocab), kTokens);
  }
  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

TEST_F(AutoHeadTest, GivesTheFullHeadsTokens) {
  for (const Sampling& sampling : {greedy(), Sampling{.temperature = 0.9f, .top_k = 20, .seed = 3}})
    for (const VocabHead::Mode mode : {VocabHead::Mode::certified, VocabHead::Mode::sure}) {
      Session full(*model_, 256, {}), session(*model_, 256, {});
      const std::vector<uint32_t> want = text(full, sampling);
      session.set_head(automatic(mode));
      EXPECT_EQ(text(session, sampling), want);
      // Both heads were used: the trial's tokens read less, those before it everything.
      const SessionStats& stats = session.stats();
      EXPECT_EQ(stats.head_tokens, kTokens);
      EXPECT_LT(stats.head_rows, full.stats().head_rows);
      EXPECT_GT(stats.head_rows, 16u * model_->config.vocab);
    }
}

TEST_F(AutoHeadTest, InManyShortAnswersToo) {
  Session full(*model_, 512, {}), session(*model_, 512, {});
  session.set_head(automatic(VocabHead::Mode::sure));
  std::vector<uint32_t> context = some_ids(5, model_->config.vocab);
  for (uint32_t i = 0; i < 40; ++i) {
    for (Session* one : {&full, &session}) one->set_sampling(greedy());
    const std::vector<uint32_t> want = generate(full, context, 1 + i % 9), got = generate(session, context, 1 + i % 9);
    ASSERT_EQ(got, want) << "answer " << i;
    context.insert(context.end(), want.begin(), want.end());
  }
  EXPECT_LT(session.stats().head_rows, full.stats().head_rows);
}

TEST_F(AutoHeadTest, BetweenGuesses) {
  Session full(*model_, 256, {}), session(*model_, 256, {});
  session.set_head(automatic(VocabHead::Mode::certified));
  session.set_drafter(std::make_unique<Lookup>());
  EXPECT_EQ(text(session, greedy()), text(full, greedy()));
}

TEST_F(AutoHeadTest, WithAKeepListAndLogprobs) {
  std::vector<uint32_t> keep;
  for (uint32_t id = 1; id < model_->config.vocab; id += 3) keep.push_back(id);
  Session full(*model_, 256, {}), session(*model_, 256, {});
  VocabHead kept = automatic(VocabHead::Mode::certified), all;
  kept.keep = all.keep = keep;
  session.set_head(kept);
  full.set_head(all);
  EXPECT_EQ(text(session, greedy()), text(full, greedy()));
  for (Session* one : {&full, &session}) one->set_logprobs(2);
  EXPECT_EQ(text(session, greedy()), text(full, greedy()));
}

}  // namespace
}  // namespace weft::test
