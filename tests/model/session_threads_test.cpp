// Many sessions over one model, each on a thread of its own: what weft.h promises. Runs under ThreadSanitizer too.
#include <thread>

#include "support/model_test.h"

namespace weft::test {
namespace {

class SessionThreadsTest : public GpuTest {};

TEST_F(SessionThreadsTest, ManySessionsOverOneModel) {
  TemporaryFolder folder;
  make_gguf(folder.path() / "m.gguf", LlamaShape(), {DType::q8_0, 5, ""});
  const auto model = load_model(open_device(), folder.path() / "m.gguf", Format::q8);
  constexpr uint32_t kThreads = 6;
  const auto run = [&](uint32_t index, int rounds) {
    Sampling sampling;  // with thresholds, so that every kernel is in use
    sampling.seed = index;
    std::vector<uint32_t> last;
    for (int round = 0; round < rounds; ++round) {
      Session session(*model, 160, {});
      session.set_sampling(sampling);
      last = generate(session, some_ids(3 + 29 * index, model->config.vocab), 12);
    }
    return last;
  };
  std::vector<std::vector<uint32_t>> alone(kThreads), together(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { together[i] = run(i, 3); });
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < kThreads; ++i) alone[i] = run(i, 1);
  EXPECT_EQ(together, alone);
}

// The model's own thread loads its layers meanwhile.
TEST_F(SessionThreadsTest, SessionsBeginWhileLayersArrive) {
  TemporaryFolder folder;
  LlamaShape shape;
  shape.layers = 5;
  make_gguf(folder.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
  const auto file = std::make_shared<const ModelFile>(open_model(folder.path() / "m.gguf"));
  Config config = read_config(*file);
  std::atomic<uint32_t> ready = 0;
  constexpr uint32_t kThreads = 4;
  const std::thread::id mine = std::this_thread::get_id();
  Weights weights = begin_weights(open_device(), file, config, Format::q8, [&](float) {
    while (std::this_thread::get_id() != mine && ready < kThreads) std::this_thread::yield();
  });
  const Model model{open_device(), config, std::move(weights)};
  std::vector<std::vector<uint32_t>> together(kThreads), alone(kThreads);
  const auto run = [&](uint32_t index) {
    Session session(model, 160, {});
    session.set_sampling(greedy());
    ++ready;
    return generate(session, some_ids(3 + 29 * index, config.vocab), 12);
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { together[i] = run(i); });
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < kThreads; ++i) alone[i] = run(i);
  EXPECT_EQ(together, alone);
}

TEST_F(SessionThreadsTest, CancelFromAnotherThread) {
  TemporaryFolder folder;
  make_gguf(folder.path() / "m.gguf", LlamaShape(), {DType::q8_0, 5, ""});
  const auto model = load_model(open_device(), folder.path() / "m.gguf", Format::q8);
  Session session(*model, 2000, {});
  session.prompt(some_ids(5, model->config.vocab));
  std::atomic<uint32_t> tokens = 0;
  std::thread canceller([&] {
    while (tokens < 3) std::this_thread::yield();
    session.cancel();
  });
  const Stop stop = session.generate(0, true, [&](uint32_t) { return ++tokens > 0; });
  canceller.join();
  EXPECT_EQ(stop, Stop::caller);
  EXPECT_LT(session.ids().size(), 2000u);
}

}  // namespace
}  // namespace weft::test
