// Figures of the policies, for docs/measurements.md: run by hand or as a soak with WEFT_FIGURES=1. A model decodes (or
// reads prompts) on one thread while another submits small work every 16 ms, as a screen that is drawn would, and
// measures how long each takes to be done. The work goes to the model's own queue, which is how a GPU with one queue
// treats it, or to a second VkDevice.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "gpu/recorder.h"
#include "ops/ops.h"
#include "support/model_test.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

// Frames to draw: each takes about a millisecond on a software driver.
class Frames {
 public:
  explicit Frames(const std::shared_ptr<Device>& device)
      : device_(device),
        data_(device, "frame", kFloats * 4, Memory::device),
        more_(device, "more", kFloats * 4, Memory::device),
        pool_(device),
        fence_(device) {
    Recorder recorder(pool_, "frame");
    recorder.fill(data_, 0);
    recorder.fill(more_, 0);
    ops::add(recorder, more_, data_, kFloats);
    commands_ = recorder.finish(true);
  }

  // Milliseconds that each frame took to be done, every 16 ms while `busy` runs.
  std::vector<double> draw(const std::function<void()>& busy) {
    std::atomic<bool> done = false;
    std::vector<double> waits;
    std::thread painter([&] {
      for (Clock::time_point next = Clock::now(); !done; next = std::max(next + kFrame, Clock::now())) {
        std::this_thread::sleep_until(next);
        const Clock::time_point begin = Clock::now();
        device_->submit({&commands_}, fence_);
        fence_.wait();
        waits.push_back(duration<double, std::milli>(Clock::now() - begin).count());
      }
    });
    busy();
    done = true;
    painter.join();
    std::sort(waits.begin(), waits.end());
    return waits;
  }

 private:
  static constexpr uint32_t kFloats = 1 << 18;
  static constexpr std::chrono::milliseconds kFrame{16};
  std::shared_ptr<Device> device_;
  Buffer data_, more_;
  CommandPool pool_;
  Fence fence_;
  CommandBuffer commands_;
};

double print_waits(const char* what, const std::vector<double>& waits) {
  const size_t count = waits.size();
  std::printf("  %-34s %4zu frames, wait: median %6.1f ms, 95%% %6.1f ms, longest %6.1f ms\n", what, count,
              waits[count / 2], waits[count * 95 / 100], waits.back());
  return waits[count / 2];
}

TEST(PolicyFigures, FramesBesideAModel) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "set WEFT_FIGURES=1 to measure";
  TemporaryFolder folder;
  LlamaShape shape = named_shape("135m");
  if (const char* layers = std::getenv("WEFT_FIGURES_LAYERS"))
    shape.layers = static_cast<uint32_t>(std::max(1, std::atoi(layers)));
  make_gguf(folder.path() / "m.gguf", shape, {DType::q8_0, 1, ""});
  const std::shared_ptr<Device> device = Device::open(), second = Device::open();
  const auto model = load_model(device, folder.path() / "m.gguf", std::nullopt);
  Frames beside(device), apart(second);
  print_waits("nothing else runs", beside.draw([] { std::this_thread::sleep_for(std::chrono::seconds(2)); }));

  std::vector<double> medians;
  std::vector<std::vector<uint32_t>> tokens;
  for (const Policy policy : {Policy::throughput, Policy::polite}) {
    std::printf("%s\n", policy == Policy::polite ? "polite" : "throughput");
    Session session(*model, 512, {}, Format::f16, policy);
    session.set_sampling(greedy());
    generate(session, some_ids(65, shape.vocab), 3);  // compiles
    session.reset();
    const auto decode = [&] { tokens.push_back(generate(session, {3, 4, 5}, 100)); };
    decode();
    const SessionStats stats = session.stats();
    const double count = static_cast<double>(stats.decoded_tokens);
    std::printf(
        "  alone %.1f ms a token; the session's thread %.2f ms of CPU time a token; %.2f ms between command "
        "buffers a token; %.0f submissions a token\n",
        stats.decode_seconds / count * 1e3, stats.decode_cpu_seconds / count * 1e3,
        stats.gap_seconds / static_cast<double>(std::max<uint64_t>(stats.timed_tokens, 1)) * 1e3,
        policy == Policy::polite ? (shape.layers + 3) / 2 : 1.0);
    medians.push_back(print_waits("decoding, in the model's queue", beside.draw(decode)));
    print_waits("decoding, on a second device", apart.draw(decode));
    print_waits("reading 191 tokens, model's queue", beside.draw([&] {
      session.reset();
      generate(session, some_ids(191, shape.vocab), 1);
    }));
  }
  for (const std::vector<uint32_t>& one : tokens) EXPECT_EQ(one, tokens.front());
  EXPECT_LT(medians[1], medians[0]);
}

// A model of twice its memory budget beside the same model whole.
TEST(PolicyFigures, AStreamedToken) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "set WEFT_FIGURES=1 to measure";
  TemporaryFolder folder;
  const LlamaShape shape = named_shape("135m");
  make_gguf(folder.path() / "m.gguf", shape, {DType::q8_0, 1, ""});
  const auto whole = load_model(Device::open(), folder.path() / "m.gguf", std::nullopt);
  const uint64_t budget = whole->weights.device_bytes() / 2;
  const auto planner = [&](const Caps& caps) {
    Plan plan = make_plan(caps);
    plan.memory_budget = budget;
    return plan;
  };
  const auto streamed = load_model(Device::open({}, planner), folder.path() / "m.gguf", std::nullopt);
  Session sessions[] = {Session(*whole, 64, {}), Session(*streamed, 64, {})};
  double best[2] = {1e9, 1e9};
  std::vector<uint32_t> tokens[2];
  for (int round = 0; round < 4; ++round)
    for (int i = 0; i < 2; ++i) {
      sessions[i].reset();
      sessions[i].set_sampling(greedy());
      tokens[i] = generate(sessions[i], {3, 4, 5}, 21);
      best[i] = std::min(best[i], sessions[i].stats().decode_seconds / 20);
    }
  EXPECT_EQ(tokens[1], tokens[0]);
  const MemoryUse use = streamed->device->memory_use();
  EXPECT_LE(use.most_device, budget);
  std::printf(
      "whole %.1f ms a token, %.1f MB on the device; streamed %.1f ms, %.1f MB of a budget of %.1f MB, %.1f MB "
      "copied a token (best of 4)\n",
      best[0] * 1e3, static_cast<double>(whole->device->memory_use().device) * 1e-6, best[1] * 1e3,
      static_cast<double>(use.most_device) * 1e-6, static_cast<double>(budget) * 1e-6,
      static_cast<double>(streamed->weights.streamed_bytes()) * 1e-6);
}

// Time that the driver takes for a session's kernels, one after the other and side by side. A cache of its own for
// compiled kernels must be switched off (Mesa: MESA_SHADER_CACHE_DISABLE=1).
TEST(PolicyFigures, KernelsSideBySide) {
  if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "set WEFT_FIGURES=1 to measure";
  setenv("WEFT_CACHE_DIR", "", 1);
  TemporaryFolder folder;
  make_gguf(folder.path() / "m.gguf", LlamaShape(), {DType::q8_0, 1, ""});
  const std::shared_ptr<Device> device = Device::open();
  const auto model = load_model(device, folder.path() / "m.gguf", std::nullopt);
  Session session(*model, 64, {});
  generate(session, {3, 4, 5}, 3);
  const auto compile = [&](bool together) {
    const std::shared_ptr<Device> fresh = Device::open();
    const Clock::time_point begin = Clock::now();
    for (const Kernel* kernel : device->kernels()) {
      const Kernel& own = fresh->kernel(kernel->spec());
      if (!together) own.wait();
    }
    for (const Kernel* kernel : fresh->kernels()) EXPECT_NE(kernel->pipeline(), VkPipeline());
    return duration<double, std::milli>(Clock::now() - begin).count();
  };
  double alone = 1e9, together = 1e9;
  for (int round = 0; round < 5; ++round) {
    alone = std::min(alone, compile(false));
    together = std::min(together, compile(true));
  }
  std::printf("%zu kernels: %.0f ms one after the other, %.0f ms side by side on %u cores (best of 5)\n",
              device->kernels().size(), alone, together, std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace weft::test
