// Recording and replaying: barriers, copies, timestamps, and the mistakes a recorder must catch.
#include "gpu/recorder.h"

#include <algorithm>

#include "add.spv.h"
#include "norm.spv.h"
#include "ops/ops.h"
#include "penalize.spv.h"
#include "sample.spv.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class RecorderTest : public GpuTest {};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::internal) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Every step needs the one before: reads after writes, writes after reads, writes after writes. Synchronization
// validation sees a barrier that is missing, and so may the result.
TEST_F(RecorderTest, OrdersWhatDependsOnEachOther) {
  const auto device = open_device();
  const Buffer a = poisoned(device, "a", 1024), b = poisoned(device, "b", 1024), c = poisoned(device, "c", 1024);
  run_once(device, "chain", [&](Recorder& recorder) {
    recorder.fill(a, 1);                                   // a 1
    recorder.copy(a, b);                                   // a 1, b 1
    recorder.fill(a, 2);                                   // a 2, b 1
    recorder.copy(a, c);                                   // a 2, b 1, c 2
    recorder.fill(View(a, 0, 2048), 3);                    // a 3|2
    recorder.fill(View(a, 1024, 2048), 4);                 // a 3 4 4 2 by quarters
    recorder.copy(View(a, 0, 2048), View(b, 2048, 2048));  // b 1 1 3 4
    recorder.copy(b, a);                                   // a 1 1 3 4
  });
  const auto quarters = [&](const Buffer& buffer) {
    const std::vector<uint32_t> words = download_as<uint32_t>(device, buffer);
    std::vector<uint32_t> list;
    for (size_t i = 0; i < words.size(); ++i) {
      if (i % 256 == 0) list.push_back(words[i]);
      EXPECT_EQ(words[i], list.back()) << buffer.name() << " " << i;
    }
    return list;
  };
  EXPECT_EQ(quarters(a), (std::vector<uint32_t>{1, 1, 3, 4}));
  EXPECT_EQ(quarters(b), (std::vector<uint32_t>{1, 1, 3, 4}));
  EXPECT_EQ(quarters(c), (std::vector<uint32_t>{2, 2, 2, 2}));
}

// A barrier between dispatches makes nothing ready for copies, and does not wait for those that nobody needs.
TEST_F(RecorderTest, BarriersNameWhatTheyOrder) {
  const auto device = open_device();
  const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
  const Buffer more(device, "more", 4, Memory::device), copy(device, "copy", 4, Memory::device);
  std::vector<Dispatch> kernels;
  Recorder recorder(*device, kernels);
  const size_t first = recorder.barriers();
  ops::read_bandwidth(recorder, words, sums);
  ops::read_bandwidth(recorder, words, more);
  EXPECT_EQ(recorder.barriers() - first, 0u) << "they read the same";
  ops::read_bandwidth(recorder, words, sums);
  EXPECT_EQ(recorder.barriers() - first, 1u) << "both write the same";
  recorder.copy(more, copy);
  EXPECT_EQ(recorder.barriers() - first, 2u) << "that barrier was for dispatches";
  recorder.copy(sums, copy);
  EXPECT_EQ(recorder.barriers() - first, 3u) << "both write the same";
  ops::read_bandwidth(recorder, words, more);
  EXPECT_EQ(recorder.barriers() - first, 3u) << "the copy that read it is before the barrier";
}

// y += x ten times in each of four command buffers, which run twenty-five times each: two of them in a submission,
// two submissions in flight.
TEST_F(RecorderTest, ReplaysInOrder) {
  for (const bool plain : {false, true}) {
    const auto device = open_device({.plain = plain});
    const uint32_t size = 100;
    std::vector<float> unit(size_t{size} * size);
    for (uint32_t i = 0; i < size; ++i) unit[size_t{i} * size + i] = 1;
    const TensorView tensor = {"unit", DType::f32, {size, size}, std::as_bytes(std::span(unit))};
    const Tiled identity = tile(device, Format::f16, size, size, tensor);
    std::vector<float> ones(stride_of(size));
    std::fill_n(ones.begin(), size, 1.0f);
    const Buffer x = upload(device, "x", ones), state = make_state(device, 0, 1, 10);
    const Buffer y = upload(device, "y", std::vector<float>(stride_of(size)));
    const Buffer copy(device, "copy", y.bytes(), Memory::readback);
    CommandPool pool(device);
    std::vector<CommandBuffer> all;
    for (int recording = 0; recording < 4; ++recording) {
      Recorder recorder(pool, "ten");
      for (int i = 0; i < 10; ++i) ops::matmul(recorder, identity.matrix, state, x, y, 1, ops::Output::add);
      recorder.copy(y, copy);
      all.push_back(recorder.finish(true));
    }
    Fence fences[2] = {Fence(device), Fence(device)};
    for (int i = 0; i < 50; ++i) {
      fences[i % 2].wait();
      device->submit({&all[i % 2 * 2], &all[i % 2 * 2 + 1]}, fences[i % 2]);
    }
    fences[0].wait();
    fences[1].wait();
    for (uint32_t i = 0; i < size; ++i) ASSERT_EQ(copy.as<float>()[i], 1000) << i;
  }
}

// The types catch the rest: tests/compile/kernel_arguments.cpp.
TEST_F(RecorderTest, CatchesAnEmptyView) {
  const auto device = open_device();
  const Buffer buffer = poisoned(device, "any", 64);
  for (const bool dry : {false, true}) {
    std::vector<Dispatch> list;
    CommandPool pool(device);
    Recorder recorder = dry ? Recorder(*device, list) : Recorder(pool, "wrong");
    EXPECT_EQ(message_of([&] {
                recorder.dispatch(shaders::add, {}, shaders::Add::Bindings{.x = buffer, .y = View{}}, abi::AddPush{1},
                                  {1});
              }),
              "add: the binding 'y' is an empty view");
  }
}

shaders::Sample::Bindings sample_bindings(const std::vector<Buffer>& buffers, const View& lists) {
  return {.state = buffers[0], .params = buffers[1], .scores = buffers[2], .candidates = buffers[3], .lists = lists};
}

// `lists` is read only if the constant `listed` says so.
TEST_F(RecorderTest, AnOptionalBindingThatIsLeftOutCostsNothing) {
  const auto device = open_device();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(poisoned(device, "buffer", 1024));
  std::vector<Dispatch> list;
  Recorder recorder(*device, list);
  const auto barriers = [&](const View& lists) {
    recorder.fill(buffers[4], 0);
    const size_t before = recorder.barriers();
    recorder.dispatch(shaders::sample, shaders::Sample::Constants{.listed = lists.buffer != nullptr},
                      sample_bindings(buffers, lists), abi::SamplePush{64}, {1});
    return recorder.barriers() - before;
  };
  EXPECT_EQ(barriers({}), 0u);
  EXPECT_EQ(barriers(buffers[4]), 1u) << "it waits for the fill";
  ASSERT_EQ(list.size(), 2u);
  const uint64_t bytes = buffers[0].bytes();
  EXPECT_EQ(list[0].bytes, (std::vector<uint64_t>{bytes, bytes, bytes, bytes, 0}));
  EXPECT_EQ(list[1].bytes, (std::vector<uint64_t>{bytes, bytes, bytes, bytes, bytes}));
}

// Bound nevertheless, to something valid of the same kind: texels and a buffer that is written. The validation layer
// looks on.
TEST_F(RecorderTest, AnOptionalBindingThatIsLeftOutIsBound) {
  for (const bool plain : {false, true}) {
    const auto device = open_device({.plain = plain});
    const std::vector<float> numbers = {3, 4, 0, 0};
    std::vector<float> row(stride_of(4));
    std::copy(numbers.begin(), numbers.end(), row.begin());
    const Buffer x = upload(device, "x", row), weight = upload(device, "weight", std::vector<float>(4, 1));
    const Buffer y = upload(device, "y", std::vector<float>(stride_of(4))), state = make_state(device, 0, 1, 10);
    run_once(device, "norm", [&](Recorder& recorder) {
      const shaders::Norm& shader = device->plan().texel_products ? shaders::norm_texel : shaders::norm;
      recorder.dispatch(
          shader,
          shaders::Norm::Constants{
              .threads = device->plan().reduce_threads, .kind = NORM_RMS, .add = false, .begins_norm = false},
          shaders::Norm::Bindings{.state = state, .x = x, .weight = weight, .y = y},
          abi::NormPush{4, stride_of(4), stride_of(4), false, 0, 0, 1}, {1});
    });
    const std::vector<float> got = download_as<float>(device, y);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], numbers[i] / 2.5f, 1e-5) << i;  // the root of 25 / 4
  }
}

TEST_F(RecorderTest, ManyDispatchesNeedMoreThanOneDescriptorPool) {
  const auto device = open_device();
  const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
  run_once(device, "many", [&](Recorder& recorder) {
    recorder.fill(words, 0);
    for (int i = 0; i < 1000; ++i) ops::read_bandwidth(recorder, words, sums);
  });
}

TEST_F(RecorderTest, KernelsAreMadeOnce) {
  const auto device = open_device();
  const auto kernel = [&](const Shader& shader, uint32_t listed) { return &device->kernel({shader, {listed}}); };
  EXPECT_EQ(kernel(shaders::penalize, 0), kernel(shaders::penalize, 0));
  EXPECT_NE(kernel(shaders::penalize, 0), kernel(shaders::penalize, 1));
  // Two shaders that differ only in their code have a kernel each.
  static const std::vector<uint8_t> copy(shaders::penalize.code.begin(), shaders::penalize.code.end());
  Shader other = shaders::penalize;
  other.code = copy;
  EXPECT_NE(kernel(shaders::penalize, 0), kernel(other, 0));
}

// In the order of the dispatches, each as often as it is dispatched; mistakes are still caught.
TEST_F(RecorderTest, ADryRunCanListKernelsWithoutCompilingThem) {
  const auto device = open_device({.attend_span = 4096 + 1});  // nobody else's, so that its kernels are this test's
  const Buffer words = poisoned(device, "words", READ_BYTES / 4), sums = poisoned(device, "sums", 64);
  const Buffer scores = poisoned(device, "scores", 64);
  std::vector<Dispatch> list;
  Recorder dry_run(*device, list);
  for (int i = 0; i < 2; ++i) ops::read_bandwidth(dry_run, words, sums);
  ops::add(dry_run, sums, scores, 64);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(label(list[0].kernel), label(list[1].kernel));
  EXPECT_STREQ(list[0].kernel.shader.name, "read_bandwidth");
  EXPECT_EQ(list[0].bytes, (std::vector<uint64_t>{words.bytes(), sums.bytes()}));
  EXPECT_STREQ(list[2].kernel.shader.name, "add");
  EXPECT_EQ(list[2].groups.x * list[2].groups.y, 1u);
  EXPECT_TRUE(device->kernels().empty());
  EXPECT_TRUE(dry_run.dispatched().empty());
  EXPECT_NE(message_of([&] { dry_run.finish(); }), "");
  EXPECT_NE(message_of([&] {
              dry_run.dispatch(shaders::add, {}, shaders::Add::Bindings{.x = sums, .y = View{}}, abi::AddPush{64}, {1});
            }),
            "");
}

TEST_F(RecorderTest, TimestampsNameEveryOperation) {
  const auto device = open_device();
  if (!device->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const Buffer words(device, "words", 1 << 20, Memory::device), sums(device, "sums", 4096, Memory::device);
  const Buffer weight = upload(device, "weight", std::vector<float>(64, 1)), state = make_state(device, 0, 1, 10);
  CommandPool pool(device);
  Fence fence(device);
  Timestamps timestamps(device, 8);
  Recorder recorder(pool, "timed", &timestamps);
  recorder.fill(words, 0);
  ops::read_bandwidth(recorder, words, sums);
  ops::norm(recorder, {64, 1e-5f}, state, words, weight, sums, 1, false);
  ops::read_bandwidth(recorder, words, sums);
  const CommandBuffer commands = recorder.finish(true);
  for (int i = 0; i < 3; ++i) {
    device->submit({&commands}, fence);
    fence.wait();
    const std::vector<Timestamps::Stage> stages = timestamps.read();
    ASSERT_EQ(stages.size(), 2u);
    EXPECT_STREQ(stages[0].name, "read_bandwidth");
    EXPECT_STREQ(stages[1].name, "norm");
    for (const Timestamps::Stage& stage : stages) {
      EXPECT_GT(stage.seconds, 0);
      EXPECT_LT(stage.seconds, 10);
    }
  }
}

TEST_F(RecorderTest, CatchesMoreMarksThanThereIsRoomFor) {
  const auto device = open_device();
  if (!device->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
  CommandPool pool(device);
  Timestamps timestamps(device, 2);
  Recorder recorder(pool, "timed", &timestamps);
  ops::read_bandwidth(recorder, words, sums);
  EXPECT_NE(message_of([&] { ops::read_bandwidth(recorder, words, sums); }).find("more than 2 marks"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::test
