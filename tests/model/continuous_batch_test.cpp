// Sessions that join and leave a batch: the same ids as alone, whenever they come.
#include "session/continuous_batch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "support/model_test.h"

namespace weft::test {
namespace {

class ContinuousBatchTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    make_gguf(folder_.path() / "m.gguf", LlamaShape(), {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", Format::q8);
    chunk_ = model_->device->plan().chunk_tokens;
  }
  std::unique_ptr<Session> session(size_t prompt, uint32_t seed = 0) const {
    auto made = std::make_unique<Session>(*model_, 8 * chunk_, std::vector<uint32_t>());
    made->set_sampling(seed ? Sampling{.temperature = 1.0f, .seed = seed} : greedy());
    made->prompt(some_ids(static_cast<uint32_t>(prompt), model_->config.vocab));
    return made;
  }
  std::vector<uint32_t> alone(size_t prompt, uint32_t tokens, uint32_t seed = 0) const {
    const auto single = session(prompt, seed);
    return generate(*single, some_ids(static_cast<uint32_t>(prompt), model_->config.vocab), tokens);
  }
  // An entry that keeps its tokens in `tokens`.
  BatchEntry entry(Session& session, uint32_t most) {
    return {session, most, true, [this, &session](uint32_t id) {
              tokens_[&session].push_back(id);
              return true;
            }};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
  size_t chunk_ = 0;
  std::map<const Session*, std::vector<uint32_t>> tokens_;
};

// A session joins at every third step; prompts of one token, of part of a pass, and of several passes.
TEST_F(ContinuousBatchTest, TheSameIdsAsAlone) {
  const size_t prompts[] = {5, 1, 2 * chunk_ + 9, chunk_, 3 * chunk_ + 1, 17};
  ContinuousBatch batch(*model_);
  std::vector<std::unique_ptr<Session>> sessions;
  size_t ended = 0;
  for (int step = 0; ended < std::size(prompts); ++step) {
    ASSERT_LT(step, 200);
    const size_t next = sessions.size();
    if (step % 3 == 0 && next < std::size(prompts)) {
      sessions.push_back(session(prompts[next], static_cast<uint32_t>(next)));
      batch.add(entry(*sessions.back(), static_cast<uint32_t>(6 + 3 * next)));
    }
    for (const ContinuousBatch::Ended& end : batch.step()) {
      EXPECT_EQ(end.stop, Stop::length);
      ++ended;
    }
    EXPECT_EQ(batch.size(), sessions.size() - ended);
  }
  for (uint32_t i = 0; i < std::size(prompts); ++i)
    EXPECT_EQ(tokens_[sessions[i].get()], alone(prompts[i], 6 + 3 * i, i)) << "session " << i;
  // One of them goes on.
  batch.add(entry(*sessions[0], 4));
  while (batch.size() > 0) batch.step();
  EXPECT_EQ(tokens_[sessions[0].get()], alone(prompts[0], 10));
}

// A short prompt does not wait for a long one that is being computed.
TEST_F(ContinuousBatchTest, ShortPromptsComeFirst) {
  const auto longer = session(5 * chunk_), shorter = session(chunk_ / 2);
  ContinuousBatch batch(*model_);
  batch.add(entry(*longer, 3));
  batch.step();
  batch.add(entry(*shorter, 3));
  batch.step();
  EXPECT_FALSE(tokens_[shorter.get()].empty());
  while (batch.size() > 0) batch.step();
  EXPECT_EQ(tokens_[longer.get()], alone(5 * chunk_, 3));
  EXPECT_EQ(tokens_[shorter.get()], alone(chunk_ / 2, 3));
}

// However many short prompts come, a long one gets every second pass.
TEST_F(ContinuousBatchTest, ALongPromptIsNotKeptWaiting) {
  const auto longer = session(4 * chunk_);
  std::vector<std::unique_ptr<Session>> others;
  ContinuousBatch batch(*model_);
  batch.add(entry(*longer, 1));
  size_t steps = 0;
  for (; tokens_[longer.get()].empty(); ++steps) {
    ASSERT_LT(steps, 20u);
    others.push_back(session(chunk_));
    batch.add(entry(*others.back(), 1));
    batch.step();
  }
  EXPECT_EQ(steps, 7u);  // at the end nothing is shorter than its last part
  while (batch.size() > 0) batch.step();
}

// With a share for tokens, those of the other session take most of the time that a long prompt is computed in. A pass
// of one token takes no longer than one of a prompt.
TEST_F(ContinuousBatchTest, TokensHaveTheirShare) {
  const auto quick = session(3), late = session(4 * chunk_ + 5);
  ContinuousBatch batch(*model_);
  EXPECT_THROW(batch.set_token_share(0.96), Error);
  EXPECT_THROW(batch.set_token_share(-0.01), Error);
  EXPECT_THROW(batch.set_token_share(std::numeric_limits<double>::quiet_NaN()), Error);
  batch.set_token_share(0.9);
  batch.add(entry(*quick, 0));
  for (int i = 0; i < 3; ++i) batch.step();
  batch.add(entry(*late, 2));
  const size_t before = tokens_[quick.get()].size();
  while (tokens_[late.get()].empty()) batch.step();
  EXPECT_GT(tokens_[quick.get()].size(), before + 20);
  while (batch.size() > 0) batch.step();
  EXPECT_EQ(tokens_[late.get()], alone(4 * chunk_ + 5, 2));
}

// A prompt that is cancelled does not wait for its turn to end.
TEST_F(ContinuousBatchTest, ACancelledPromptEndsAtOnce) {
  const auto first = session(3 * chunk_), second = session(5 * chunk_);
  ContinuousBatch batch(*model_);
  batch.add(entry(*first, 1));
  batch.add(entry(*second, 1));
  batch.step();
  second->cancel();
  const std::vector<ContinuousBatch::Ended> ended = batch.step();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].session, second.get());
  EXPECT_EQ(ended[0].stop, Stop::caller);
  while (batch.size() > 0) batch.step();
}

// Short prompts are computed in one step, as many as a pass may have tokens.
TEST_F(ContinuousBatchTest, ShortPromptsJoinTogether) {
  std::vector<std::unique_ptr<Session>> sessions;
  ContinuousBatch batch(*model_);
  for (const size_t prompt : {chunk_ / 2, chunk_ / 4, chunk_ / 2, size_t{1}}) {
    sessions.push_back(session(prompt));
    batch.add(entry(*sessions.back(), 5));
  }
  const auto begun = [&] {
    return std::ranges::count_if(sessions, [&](const auto& s) { return !tokens_[s.get()].empty(); });
  };
  batch.step();
  EXPECT_EQ(begun(), 3);  // all but one of the longest
  batch.step();
  EXPECT_EQ(begun(), 4);
}

// Between the passes of a long prompt the other session gets a token.
TEST_F(ContinuousBatchTest, ALongPromptDelaysNobodyByMoreThanAPass) {
  const auto quick = session(3), late = session(4 * chunk_ + 5);
  ContinuousBatch batch(*model_);
  batch.add(entry(*quick, 0));
  for (int i = 0; i < 3; ++i) batch.step();
  batch.add(entry(*late, 2));
  const size_t before = tokens_[quick.get()].size();
  int steps = 0;
  for (; tokens_[late.get()].empty(); ++steps) {
    const size_t had = tokens_[quick.get()].size();
    batch.step();
    EXPECT_GT(tokens_[quick.get()].size(), had);
  }
  EXPECT_EQ(steps, 5);
  EXPECT_GE(tokens_[quick.get()].size(), before + 5);
}

// Tokens that were computed ahead do not wait for a prompt, and prompts that wait do not wait for tokens ahead: a pass
// of prompts and one of tokens take turns.
TEST_F(ContinuousBatchTest, PromptsAndTokensTakeTurns) {
  const auto quick = session(3);
  std::vector<std::unique_ptr<Session>> late;
  std::array<std::vector<size_t>, 3> quick_had;  // when a late session got its tokens
  ContinuousBatch batch(*model_);
  batch.add(entry(*quick, 0));
  for (int i = 0; i < 3; ++i) batch.step();
  for (size_t i = 0; i < 3; ++i) {
    late.push_back(session(chunk_ / 2 + 1));  // two are more than a pass may have
    batch.add({*late.back(), 0, true, [&, i](uint32_t) {
                 quick_had[i].push_back(tokens_[quick.get()].size());
                 return true;
               }});
  }
  const size_t before = tokens_[quick.get()].size();
  for (int i = 0; i < 3; ++i) batch.step();
  ASSERT_GT(quick_had[0].size(), 1u);
  EXPECT_GT(quick_had[0][0], before) << "what was ahead had to wait for the prompt";
  EXPECT_EQ(quick_had[1].at(0), quick_had[0][0] + 1);
  EXPECT_EQ(quick_had[2].at(0), quick_had[0][0] + 2);
}

TEST_F(ContinuousBatchTest, SessionsEndWhenTheyMust) {
  const auto cancelled = session(5 * chunk_), thrown = session(4), left = session(9);
  ContinuousBatch batch(*model_);
  batch.add(entry(*cancelled, 0));
  batch.add({*thrown, 0, true, [](uint32_t) -> bool { throw std::runtime_error("enough"); }});
  batch.add(entry(*left, 12));
  std::map<const Session*, ContinuousBatch::Ended> ends;
  for (int step = 0; batch.size() > 0; ++step) {
    ASSERT_LT(step, 100);
    if (step == 2) cancelled->cancel();  // in the middle of its prompt
    for (const ContinuousBatch::Ended& end : batch.step()) ends[end.session] = end;
  }
  EXPECT_EQ(ends.at(cancelled.get()).stop, Stop::caller);
  EXPECT_TRUE(tokens_[cancelled.get()].empty());
  EXPECT_FALSE(ends.at(thrown.get()).stop);
  EXPECT_THROW(std::rethrow_exception(ends.at(thrown.get()).failure), std::runtime_error);
  EXPECT_EQ(ends.at(left.get()).stop, Stop::length);
  EXPECT_EQ(tokens_[left.get()], alone(9, 12));
  cancelled->clear_cancel();
  // The computed part of a cancelled prompt is kept.
  cancelled->prompt(some_ids(static_cast<uint32_t>(5 * chunk_), model_->config.vocab));
  EXPECT_GE(cancelled->stats().reused_tokens, chunk_);
  batch.add(entry(*cancelled, 3));
  while (batch.size() > 0) batch.step();
  EXPECT_EQ(tokens_[cancelled.get()], alone(5 * chunk_, 3));
}

TEST_F(ContinuousBatchTest, RefusesWhatItCannotDo) {
  ContinuousBatch batch(*model_);
  const auto code_of = [&](Session& session) -> std::optional<Code> {
    try {
      batch.add(entry(session, 1));
    } catch (const Error& error) {
      return error.code();
    }
    return std::nullopt;
  };
  EXPECT_TRUE(batch.step().empty());
  const auto good = session(3);
  Session empty(*model_, 64, {});
  EXPECT_EQ(code_of(empty), Code::invalid_argument);
  EXPECT_EQ(code_of(*good), std::nullopt);
  EXPECT_EQ(code_of(*good), Code::invalid_argument);  // it is there already
  const auto other = load_model(open_device(), folder_.path() / "m.gguf", Format::f16);
  Session foreign(*other, 64, {});
  foreign.prompt(some_ids(3, other->config.vocab));
  EXPECT_EQ(code_of(foreign), Code::invalid_argument);
  EXPECT_EQ(batch.size(), 1u);
  while (batch.size() > 0) batch.step();  // before its session goes
  EXPECT_EQ(tokens_[good.get()].size(), 1u);
}

}  // namespace
}  // namespace weft::test
