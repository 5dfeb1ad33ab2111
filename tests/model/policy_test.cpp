// The scheduling policies give the same tokens; how they submit differs.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "run/submission_bound.h"
#include "run/turns.h"
#include "session/batch.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class PolicyTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    LlamaShape shape;
    shape.layers = 5;
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", Format::q8);
  }
  Session session(Policy policy) const { return Session(*model_, 256, {}, Format::f16, policy); }
  std::vector<uint32_t> ids(uint32_t count) const { return some_ids(count, model_->config.vocab); }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

TEST_F(PolicyTest, PoliteGivesTheSameTokensInSmallPieces) {
  constexpr uint32_t kTokens = 40;  // enough for timed passes among them
  Session fast = session(Policy::throughput), polite = session(Policy::polite);
  Sampling sampling;
  sampling.seed = 3;
  for (Session* one : {&fast, &polite}) one->set_sampling(sampling);
  EXPECT_EQ(generate(polite, ids(70), kTokens), generate(fast, ids(70), kTokens));
  // A pass has the embedding, five layers and what follows: seven pieces of a prompt's chunk, four of a token.
  const uint32_t chunk = model_->device->plan().chunk_tokens, chunks = (70 + chunk - 1) / chunk;
  EXPECT_EQ(fast.queue().submissions(), chunks + kTokens - 1);
  EXPECT_EQ(polite.queue().submissions(), chunks * 7 + (kTokens - 1) * 4);
  EXPECT_EQ(fast.queue().most_in_flight(), model_->device->plan().run_ahead + 1);
  EXPECT_EQ(polite.queue().most_in_flight(), 2u);
  EXPECT_EQ(polite.score(ids(100)), fast.score(ids(100)));
  EXPECT_EQ(polite.logits(), fast.logits());
  EXPECT_EQ(polite.queue().most_in_flight(), 2u);
}

// The validation layer reports a command buffer that is submitted while it is in flight.
TEST_F(PolicyTest, ACommandBufferInFlightIsWaitedFor) {
  CommandPool pool(model_->device);
  const Buffer data(model_->device, "data", 1 << 20, Memory::device);
  const auto record = [&] {
    Recorder recorder(pool, "fill");
    recorder.fill(data, 0);
    return recorder.finish();
  };
  const CommandBuffer one = record(), other = record();
  SubmissionQueue queue(*model_, Policy::throughput);
  EXPECT_FALSE(queue.in_flight(one));
  for (int i = 0; i < 3; ++i) queue.submit(0, {}, one);
  EXPECT_EQ(queue.most_in_flight(), 1u);
  queue.submit(0, {}, other);
  EXPECT_EQ(queue.most_in_flight(), 2u);
  EXPECT_TRUE(queue.in_flight(one) && queue.in_flight(other));
  queue.submit(0, {}, one);  // the oldest submission is waited for, the other one is not
  EXPECT_TRUE(queue.in_flight(one) && queue.in_flight(other));
  queue.drain();
  EXPECT_FALSE(queue.in_flight(one) || queue.in_flight(other));
}

TEST(TurnsTest, ARecordingThatIsBusyLeavesItsTurnToANewOne) {
  Turns<int> turns;
  std::vector<int> busy;
  int made = 0;
  const auto next = [&] {
    return turns.next(
        3, [&](int one) { return std::ranges::find(busy, one) != busy.end(); }, [&] { return ++made; });
  };
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 1);
  busy = {1};
  EXPECT_EQ(next(), 2);
  busy = {1, 2};
  EXPECT_EQ(next(), 3);
  busy = {1, 2, 3};
  EXPECT_EQ(next(), 1) << "the oldest, if there are as many as there may be";
  busy = {3, 1};
  EXPECT_EQ(next(), 2);
  EXPECT_EQ(next(), 3);
  EXPECT_EQ(made, 3);
}

// The time of a submission is bounded by measurement: first a command buffer each, then what fits.
TEST_F(PolicyTest, ABoundOnASubmissionsTimeChangesNoTokens) {
  const auto bounded = [&](uint32_t milliseconds) {
    return Device::open({}, [&](const Caps&) {
      Plan plan = open_device()->plan();
      plan.submission_ms = milliseconds;
      return plan;
    });
  };
  constexpr uint32_t kTokens = 20;
  Session fast = session(Policy::throughput);
  fast.set_sampling(greedy());
  const std::vector<uint32_t> want = generate(fast, ids(150), kTokens);
  const auto scores = fast.score(ids(100));
  for (const uint32_t milliseconds : {1u, SubmissionBound::kLongMs - 1}) {
    SCOPED_TRACE(milliseconds);
    const auto model = load_model(bounded(milliseconds), folder_.path() / "m.gguf", Format::q8);
    for (const Policy policy : {Policy::throughput, Policy::polite}) {
      Session session(*model, 256, {}, Format::f16, policy);
      session.set_sampling(greedy());
      EXPECT_EQ(generate(session, ids(150), kTokens), want);
      EXPECT_EQ(session.score(ids(100)), scores);
      if (policy == Policy::polite) continue;
      // Passes are whole but for the first chunk and the first token, unless a millisecond is too short for one.
      const uint64_t submissions = session.queue().submissions();
      EXPECT_GE(submissions, 2 * 7 + kTokens - 2);
      if (milliseconds == 1) continue;
      EXPECT_LT(submissions, 4 * 7 + kTokens);
    }
    // A batch does not run ahead of passes that are cut.
    std::vector<std::vector<uint32_t>> got(2);
    std::deque<Session> sessions;
    std::vector<BatchEntry> entries;
    for (std::vector<uint32_t>& tokens : got) {
      Session& session = sessions.emplace_back(*model, 256, std::vector<uint32_t>{});
      session.set_sampling(greedy());
      session.prompt(ids(150));
      entries.push_back({session, kTokens, true, [&](uint32_t id) { return tokens.push_back(id), true; }});
    }
    generate_batch(entries);
    EXPECT_EQ(got, std::vector(2, want));
  }
}

TEST(SubmissionBoundTest, TakesAsManyBuffersAsTheirTimeAllows) {
  using Clock = SubmissionBound::Clock;
  const Clock::time_point start = Clock::now();
  const auto at = [&](int milliseconds) { return start + std::chrono::milliseconds(milliseconds); };
  SubmissionBound bound(50), none(0), cards(500);
  EXPECT_EQ(none.most(1), SIZE_MAX);
  EXPECT_EQ(cards.most(8), SIZE_MAX) << "few tokens";
  EXPECT_EQ(cards.most(9), 1u);
  EXPECT_EQ(cards.most(0), 1u) << "an encoder's input";
  EXPECT_EQ(bound.most(1), 1u);
  bound.waited(1, 2, at(0), at(1), at(20));  // 10 ms each
  EXPECT_EQ(bound.most(1), 5u);
  EXPECT_EQ(bound.most(64), 1u) << "other passes take another time";
  bound.waited(64, 1, at(5), at(20), at(200));  // it began when the one before ended
  EXPECT_EQ(bound.most(64), 1u);
  bound.waited(1, 4, at(150), at(201), at(201));  // it had ended before: nothing is known of it
  EXPECT_EQ(bound.most(1), 5u);
  bound.waited(1, 1, at(190), at(202), at(250));  // nor of when this one began
  EXPECT_EQ(bound.most(1), 5u);
  bound.waited(1, 1, at(251), at(252), at(256));  // 5 ms
  EXPECT_EQ(bound.most(1), 10u);
  bound.waited(1, 0, at(257), at(258), at(300));  // no part of a pass
  EXPECT_EQ(bound.most(1), 10u);
  bound.waited(1, 10, at(299), at(300), at(310));  // from the end of the one before: 1 ms each
  EXPECT_EQ(bound.most(1), 50u);
}

TEST_F(PolicyTest, ABatchIsPoliteIfOneIs) {
  std::vector<std::vector<uint32_t>> got(2), alone(2);
  Session fast = session(Policy::throughput), polite = session(Policy::polite);
  std::vector<BatchEntry> entries;
  for (Session* one : {&fast, &polite}) {
    one->set_sampling(greedy());
    one->prompt(ids(5));
    std::vector<uint32_t>& tokens = got[entries.size()];
    entries.push_back({*one, 12, true, [&](uint32_t id) { return tokens.push_back(id), true; }});
  }
  generate_batch(entries);
  for (size_t i = 0; i < 2; ++i) {
    Session own = session(Policy::throughput);
    own.set_sampling(greedy());
    alone[i] = generate(own, ids(5), 12);
  }
  EXPECT_EQ(got, alone);
}

// A cancel between the pieces' passes, a callback that stops: the session goes on as a fast one does.
TEST_F(PolicyTest, StopsAndGoesOn) {
  Session fast = session(Policy::throughput), polite = session(Policy::polite);
  for (Session* one : {&fast, &polite}) {
    one->set_sampling(greedy());
    one->prompt(ids(9));
    uint32_t count = 0;
    EXPECT_EQ(one->generate(0, true, [&](uint32_t) { return ++count < 5; }), Stop::caller);
    EXPECT_THROW(one->generate(0, true, [](uint32_t) -> bool { throw Error(Code::cancelled, "no more", "test"); }),
                 Error);
    one->generate(6, true, [](uint32_t) { return true; });
  }
  EXPECT_EQ(polite.ids(), fast.ids());
}

TEST_F(PolicyTest, CountsItsOwnTimeAndTheDevicesGaps) {
  Session polite = session(Policy::polite);
  generate(polite, ids(3), 40);
  const SessionStats& stats = polite.stats();
  EXPECT_GT(stats.decode_cpu_seconds, 0);
  EXPECT_LT(stats.decode_cpu_seconds, stats.decode_seconds);
  if (!model_->device->caps().timestamps) return;
  EXPECT_EQ(stats.timed_tokens, 3u);  // of 40, every sixteenth from the third on
  EXPECT_GT(stats.gap_seconds, 0);
  EXPECT_LT(stats.gap_seconds, stats.decode_seconds);
}

// A model whose layers do not fit the memory budget of its device.
class StreamTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    LlamaShape shape;
    shape.layers = 15;  // odd, so that the last layer and the first are in one slot
    shape.ffn = 480;
    make_gguf(path(), shape, {DType::q8_0, 5, ""});
  }
  std::filesystem::path path() const { return folder_.path() / "m.gguf"; }
  // One for each budget, 0: none. With small chunks, whose activations are small too.
  static std::shared_ptr<Device> device_of(uint64_t budget) {
    std::shared_ptr<Device>& device = devices_[budget];
    const auto planner = [&](const Caps&) {
      Plan plan = open_device()->plan();
      plan.memory_budget = budget;
      plan.chunk_tokens = 8;
      return plan;
    };
    if (!device) device = Device::open({}, planner);
    return device;
  }
  static void TearDownTestSuite() { devices_.clear(); }

  TemporaryFolder folder_;

 private:
  static inline std::map<uint64_t, std::shared_ptr<Device>> devices_;
};

TEST_F(StreamTest, ALargerModelThanTheBudgetGivesTheSameTokens) {
  const auto whole = load_model(device_of(0), path(), std::nullopt);
  const uint64_t weights = whole->weights.device_bytes(), budget = weights / 2;
  EXPECT_EQ(whole->weights.streamed_bytes(), 0u);
  const std::shared_ptr<Device> device = device_of(budget);
  const auto streamed = load_model(device, path(), std::nullopt);
  ASSERT_TRUE(streamed->weights.stream);
  EXPECT_GT(streamed->weights.streamed_bytes(), budget);
  EXPECT_EQ(streamed->bytes_per_token(), whole->bytes_per_token());

  Session expected(*whole, 80, {});
  expected.set_sampling(greedy());
  const std::vector<uint32_t> prompt = some_ids(20, 512), want = generate(expected, prompt, 8);
  for (const Policy policy : {Policy::throughput, Policy::polite}) {
    Session session(*streamed, 80, {}, Format::f16, policy);
    session.set_sampling(greedy());
    EXPECT_EQ(generate(session, prompt, 8), want);
    EXPECT_EQ(session.score(some_ids(3, 512)), expected.score(some_ids(3, 512)));
  }
  const MemoryUse use = device->memory_use();
  EXPECT_LE(use.most_device, budget);
  EXPECT_GE(use.device, streamed->weights.device_bytes());
  EXPECT_GE(use.host, streamed->weights.streamed_bytes());
}

// Layers of several sizes and shapes, and a table that is in the host's memory anyway.
TEST_F(StreamTest, LayersThatDiffer) {
  const auto golden = source_folder() / "tests/model/golden/gemma4";
  const auto whole = load_model(device_of(0), golden, Format::f16);
  const auto streamed = load_model(device_of(whole->weights.device_bytes() * 3 / 4), golden, Format::f16);
  ASSERT_TRUE(streamed->weights.stream);
  Session expected(*whole, 80, {}), session(*streamed, 80, {});
  expected.set_sampling(greedy());
  session.set_sampling(greedy());
  EXPECT_EQ(generate(session, some_ids(20, 131), 20), generate(expected, some_ids(20, 131), 20));
}

// Passes of sessions and of a batch share the slots; those of polite sessions are cut in pieces.
TEST_F(StreamTest, SessionsOnManyThreadsAndBatches) {
  const auto whole = load_model(device_of(0), path(), std::nullopt);
  const auto streamed = load_model(device_of(whole->weights.device_bytes() / 2), path(), std::nullopt);
  ASSERT_TRUE(streamed->weights.stream);
  const auto run = [](const Model& model, uint32_t index) {
    Session session(model, 64, {}, Format::f16, index % 2 ? Policy::polite : Policy::throughput);
    session.set_sampling(greedy());
    return generate(session, some_ids(3 + index, 512), 8);
  };
  std::vector<std::vector<uint32_t>> want(2), got(2);
  for (uint32_t i = 0; i < 2; ++i) want[i] = run(*whole, i);
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < 2; ++i) threads.emplace_back([&, i] { got[i] = run(*streamed, i); });
  }
  EXPECT_EQ(got, want);

  std::vector<std::vector<uint32_t>> batches[2] = {std::vector<std::vector<uint32_t>>(2),
                                                   std::vector<std::vector<uint32_t>>(2)};
  for (size_t m = 0; m < 2; ++m) {
    const Model& model = m ? *streamed : *whole;
    std::deque<Session> sessions;
    std::vector<BatchEntry> entries;
    for (uint32_t i = 0; i < 2; ++i) {
      sessions.emplace_back(model, 64, std::vector<uint32_t>{});
      sessions.back().set_sampling(greedy());
      sessions.back().prompt(some_ids(4 + i, 512));
      std::vector<uint32_t>& tokens = batches[m][i];
      entries.push_back({sessions.back(), 6, true, [&](uint32_t id) { return tokens.push_back(id), true; }});
    }
    generate_batch(entries);
  }
  EXPECT_EQ(batches[1], batches[0]);
}

TEST_F(StreamTest, ABudgetThatIsTooSmallIsSaidWithFigures) {
  const auto whole = load_model(device_of(0), path(), std::nullopt);
  const uint64_t table = whole->weights.vocab_bytes(), layer = whole->weights.layers[0].buffer.bytes();
  const auto refusal = [&](uint64_t budget, const std::function<void(const Model&)>& use) -> std::string {
    try {
      use(*load_model(device_of(budget), path(), std::nullopt));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::out_of_memory);
      return error.what();
    }
    return "";
  };
  const std::string slots = refusal(table + 2 * layer - 1, [](const Model&) {});
  EXPECT_NE(slots.find(std::to_string(table + 2 * layer - 1)), std::string::npos) << slots;
  EXPECT_NE(slots.find(std::to_string(2 * layer)), std::string::npos) << slots;
  // Room for the weights, none for a session.
  const std::string cache = refusal(table + 2 * layer + 5000, [](const Model& m) { Session(m, 2048, {}); });
  EXPECT_NE(cache.find("memory budget of " + std::to_string(table + 2 * layer + 5000)), std::string::npos) << cache;
  // All of it fits.
  EXPECT_EQ(refusal(whole->weights.device_bytes() * 2, [](const Model& m) { EXPECT_FALSE(m.weights.stream); }), "");
}

}  // namespace
}  // namespace weft::test
