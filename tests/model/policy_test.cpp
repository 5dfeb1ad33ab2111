// The scheduling policies give the same tokens; how they submit differs.
#include "base/error.h"
#include "session/batch.h"
#include "support/model_test.h"

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
  EXPECT_EQ(fast.flights().submissions(), 2 + kTokens - 1);
  EXPECT_EQ(polite.flights().submissions(), 2 * 7 + (kTokens - 1) * 4);
  EXPECT_EQ(fast.flights().most_in_flight(), model_->device->plan().run_ahead + 1);
  EXPECT_EQ(polite.flights().most_in_flight(), 2u);
  EXPECT_EQ(polite.score(ids(100)), fast.score(ids(100)));
  EXPECT_EQ(polite.logits(), fast.logits());
  EXPECT_EQ(polite.flights().most_in_flight(), 2u);
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
  generate(polite, ids(3), 60);
  const SessionStats& stats = polite.stats();
  EXPECT_GT(stats.decode_cpu_seconds, 0);
  EXPECT_LT(stats.decode_cpu_seconds, stats.decode_seconds);
  if (!model_->device->caps().timestamps) return;
  EXPECT_EQ(stats.sampled_tokens, 4u);  // of 60, every sixteenth from the third on
  EXPECT_GT(stats.gap_seconds, 0);
  EXPECT_LT(stats.gap_seconds, stats.decode_seconds);
}

}  // namespace
}  // namespace weft::test
