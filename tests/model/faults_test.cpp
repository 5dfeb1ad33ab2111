// Failures outside of Weft: host memory and Vulkan calls. Each gives an error, and the session goes on afterwards.
#include <fstream>

#include "base/error.h"
#include "ops/ops.h"
#include "support/failing_call.h"
#include "support/failing_new.h"
#include "support/model_test.h"

namespace weft::test {
namespace {

class FaultsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    make_gguf(path(), LlamaShape(), {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), path(), Format::q8);
  }
  std::filesystem::path path() const { return folder_.path() / "m.gguf"; }
  std::vector<uint32_t> ids(uint32_t count) const { return some_ids(count, model_->config.vocab); }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Calls work with its first allocation failing, its second, and so on until all succeed, and checks after each time.
// Returns the number of allocations.
size_t fail_each_allocation(const std::function<void()>& work, const std::function<void(size_t n)>& check) {
  for (size_t n = 1;; ++n) {
    bool failed = false;
    {
      const FailAllocation failing(n);
      try {
        work();
      } catch (const std::bad_alloc&) {
      } catch (const Error&) {
      }
      failed = failing.failed();
    }
    check(n);
    if (!failed || testing::Test::HasFailure()) return n - 1;
  }
}

TEST_F(FaultsTest, HostMemoryRunsOutWhileGenerating) {
  for (const Policy policy : {Policy::throughput, Policy::polite}) {
    const uint32_t tokens = policy == Policy::polite ? 20 : 4;  // 20: some 40 submissions
    std::optional<Session> session;
    const auto begin = [&] {
      session.emplace(*model_, 200, std::vector<uint32_t>{}, Format::f16, policy);
      session->set_sampling(greedy());
    };
    begin();
    const std::vector<uint32_t> want = generate(*session, ids(40), tokens);
    begin();  // a new one each time: every allocation is met
    const size_t count = fail_each_allocation([&] { generate(*session, ids(40), tokens); },
                                              [&](size_t n) {
                                                ASSERT_EQ(generate(*session, ids(40), tokens), want)
                                                    << "allocation " << n;
                                                begin();
                                              });
    EXPECT_GT(count, 20u);
  }
}

TEST_F(FaultsTest, HostMemoryRunsOutWhileSavingAndRestoring) {
  Session session(*model_, 100, {});
  session.set_sampling(greedy());
  const std::vector<uint32_t> want = generate(session, ids(20), 5);
  const std::filesystem::path saved = folder_.path() / "saved";
  session.save(saved, "a note");
  EXPECT_EQ(std::filesystem::status(saved).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto bytes_of = [](const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string whole = bytes_of(saved);
  EXPECT_GT(fail_each_allocation([&] { session.save(saved, "a note"); },
                                 [&](size_t n) { ASSERT_TRUE(bytes_of(saved) == whole) << "allocation " << n; }),
            20u);
  EXPECT_GT(
      fail_each_allocation([&] { session.restore(saved); },
                           [&](size_t n) { ASSERT_EQ(generate(session, ids(20), 5), want) << "allocation " << n; }),
      20u);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) ++files;
  EXPECT_EQ(files, 2u) << "a partial file is left";
}

// ---- Vulkan ----

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// One call of a function fails; the next use of the kernel compiles it again.
template <auto function>
void fail_to_compile() {
  const auto device = Device::open();
  const Buffer words(device, "words", READ_BYTES, Memory::device), sums(device, "sums", 4, Memory::device);
  const auto use = [&] {
    run_once(device, "read", [&](Recorder& recorder) { ops::read_bandwidth(recorder, words, sums); });
  };
  {
    const FailCall<function> failing(*device, 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_NE(refusal(use).find("VK_ERROR_OUT_OF_HOST_MEMORY"), std::string::npos);
    for (const Kernel* kernel : device->kernels()) EXPECT_NE(kernel, nullptr);
  }
  EXPECT_EQ(refusal(use), "");
}

TEST_F(FaultsTest, AKernelThatFailedIsCompiledAgain) {
  fail_to_compile<&VolkDeviceTable::vkCreateShaderModule>();
  fail_to_compile<&VolkDeviceTable::vkCreateComputePipelines>();
  fail_to_compile<&VolkDeviceTable::vkCreateDescriptorSetLayout>();
  fail_to_compile<&VolkDeviceTable::vkCreatePipelineLayout>();
}

TEST_F(FaultsTest, AMapThatFailsIsWantOfMemory) {
  const auto device = Device::open();
  const FailCall<&VolkDeviceTable::vkMapMemory> failing(*device, 1, VK_ERROR_MEMORY_MAP_FAILED);
  try {
    const Buffer buffer(device, "mapped", 64, Memory::upload);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_memory) << error.what();
  }
}

// Vulkan guarantees 4096 allocations on a device.
TEST_F(FaultsTest, ASessionTakesFewAllocations) {
  LlamaShape shape;
  shape.layers = 32;
  make_gguf(path(), shape, {DType::q8_0, 5, ""});
  const auto device = Device::open();
  const auto model = load_model(device, path(), Format::q8);
  {
    const FailCall<&VolkDeviceTable::vkAllocateMemory> counting(*device, SIZE_MAX, VK_SUCCESS);
    Session session(*model, 100, {});
    EXPECT_LE(counting.calls(), 16u);
  }
  EXPECT_GE(device->caps().max_allocations, 4096u);
  const_cast<Caps&>(device->caps()).max_allocations = 70;  // the model has some 36
  std::vector<std::unique_ptr<Session>> sessions;
  const std::string problem = refusal([&] {
    while (sessions.size() < 20) sessions.push_back(std::make_unique<Session>(*model, 100, std::vector<uint32_t>{}));
  });
  EXPECT_NE(problem.find("no more than 70 allocations"), std::string::npos) << problem;
  sessions.clear();
  EXPECT_EQ(refusal([&] { Session(*model, 100, {}); }), "");
}

// The validation layer tells what is left when the device goes.
TEST_F(FaultsTest, HostMemoryRunsOutWhileASessionIsMade) {
  for (size_t n = 1, step = 1;; n += step, step = 1 + n / 8) {
    const auto device = Device::open();
    const auto model = load_model(device, path(), Format::q8);
    const FailAllocation failing(n);
    try {
      const Session session(*model, 100, {});
    } catch (const std::bad_alloc&) {
    } catch (const Error&) {
    }
    if (!failing.failed() || HasFailure()) break;
  }
}

// A driver's list that grows between the two calls that ask for it.
TEST_F(FaultsTest, AListThatGrows) {
  static PFN_vkEnumerateDeviceExtensionProperties real;
  static int cuts;
  real = vkEnumerateDeviceExtensionProperties;
  cuts = 2;
  const auto device = open_device();
  const size_t count = device_extensions(device->physical()).size();
  vkEnumerateDeviceExtensionProperties = [](VkPhysicalDevice physical, const char* layer, uint32_t* wanted,
                                            VkExtensionProperties* list) {
    if (list != nullptr && cuts-- > 0) {
      *wanted = 1;
      return VK_INCOMPLETE;
    }
    return real(physical, layer, wanted, list);
  };
  EXPECT_EQ(device_extensions(device->physical()).size(), count);
  EXPECT_LT(cuts, 0);
  vkEnumerateDeviceExtensionProperties = real;
}

// A pass is submitted in pieces and a later one fails: slot 0 then holds another layer than the first.
TEST_F(FaultsTest, AStreamedPassThatFailedInTheMidst) {
  LlamaShape shape;
  shape.layers = 15;
  shape.ffn = 480;
  make_gguf(path(), shape, {DType::q8_0, 5, ""});
  const auto whole = load_model(open_device(), path(), std::nullopt);
  const auto device = Device::open({}, [&](const Caps&) {
    Plan plan = open_device()->plan();
    plan.memory_budget = whole->weights.device_bytes() / 2;
    plan.chunk_tokens = 8;
    return plan;
  });
  const auto streamed = load_model(device, path(), std::nullopt);
  ASSERT_TRUE(streamed->weights.stream);
  for (const Policy policy : {Policy::polite, Policy::throughput}) {
    Session expected(*whole, 40, {}), session(*streamed, 40, {}, Format::f16, policy);
    for (Session* one : {&expected, &session}) one->set_sampling(greedy());
    const std::vector<uint32_t> want = generate(expected, ids(5), 4);
    EXPECT_EQ(generate(session, ids(5), 4), want);
    const size_t calls = policy == Policy::polite ? 20 : 3;
    for (size_t n = 1; n <= calls; ++n) {
      {
        const FailCall<&VolkDeviceTable::vkQueueSubmit> failing(*device, n, VK_ERROR_OUT_OF_HOST_MEMORY);
        session.reset();
        EXPECT_NE(refusal([&] { generate(session, ids(5), 4); }), "");
      }
      ASSERT_EQ(generate(session, ids(5), 4), want) << "submission " << n;
    }
  }
}

}  // namespace
}  // namespace weft::test
