#include "gpu/device.h"

#include <numeric>

#include "base/error.h"
#include "support/gpu_test.h"

namespace weft::test {
namespace {

class DeviceTest : public GpuTest {};

template <class Action>
Code code_of(Action&& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Code::internal;
}

TEST_F(DeviceTest, IsFoundByIndexAndByPartOfItsName) {
  const std::string name = open_device()->caps().name;
  const std::vector<DeviceListing> list = list_devices();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(Device::open("0")->caps().name, list[0].caps.name);
  std::string part = name.substr(1, 4);
  for (char& letter : part) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  EXPECT_NE(Device::open(part), nullptr);
}

// The validation layer's list of labels has no lock (instance.h).
TEST_F(DeviceTest, DispatchesHaveLabelsOnlyWhereTheyAreAskedFor) {
  EXPECT_EQ(open_device()->debug_labels(), std::getenv("WEFT_LABELS") != nullptr);
}

TEST_F(DeviceTest, UnknownOnesAreRefusedWithTheList) {
  for (const char* selector : {"99", "no such device", "-1", "0x0", "18446744073709551616"}) {
    std::string message;
    EXPECT_EQ(code_of([&] { Device::open(selector); }, &message), Code::no_device);
    EXPECT_NE(message.find(selector), std::string::npos) << message;
    EXPECT_NE(message.find("0 " + list_devices()[0].caps.name), std::string::npos) << message;
  }
}

TEST_F(DeviceTest, ListingsHoldAPlanOrARefusal) {
  for (const DeviceListing& device : list_devices()) {
    EXPECT_FALSE(device.caps.name.empty());
    EXPECT_EQ(device.plan.reduce_threads > 0, device.refusal.empty()) << device.caps.name;
  }
}

TEST_F(DeviceTest, UploadsAndDownloadsAnySize) {
  const auto device = open_device();
  for (const size_t count : {1u, 63u, 1000u, (8u << 20) / 4 + 5}) {  // the last in two pieces
    std::vector<uint32_t> words(count);
    std::iota(words.begin(), words.end(), 7u);
    EXPECT_TRUE(download_as<uint32_t>(device, upload(device, "words", words)) == words) << count;
  }
}

TEST_F(DeviceTest, UploadsInWholeGranules) {
  const auto device = open_device();
  const uint64_t granule = 3 << 20, bytes = 3 * granule + 1024;
  const Buffer buffer(device, "granules", bytes, Memory::device);
  uint64_t expected = 0;
  Uploader(device).upload(buffer, granule, [&](uint64_t offset, std::span<std::byte> out) {
    EXPECT_EQ(offset, expected);
    EXPECT_EQ(offset % granule, 0u);
    expected = offset + out.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((offset + i) * 31 >> 8);
  });
  EXPECT_EQ(expected, bytes);
  const std::vector<std::byte> got = download(device, buffer);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<std::byte>(i * 31 >> 8)) << i;
}

TEST_F(DeviceTest, SharedBuffersAreSeenFromBothSides) {
  const auto device = open_device();
  const Buffer shared(device, "shared", 256, Memory::shared), other(device, "other", 256, Memory::device);
  ASSERT_NE(shared.data(), nullptr);
  EXPECT_EQ(other.data(), nullptr);
  std::fill_n(shared.as<uint32_t>(), 64, 5u);
  run_once(device, "there", [&](Recorder& recorder) { recorder.copy(shared, other); });
  EXPECT_EQ(download_as<uint32_t>(device, other), std::vector<uint32_t>(64, 5));
  run_once(device, "back", [&](Recorder& recorder) { recorder.fill(shared, 6); });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(shared.as<uint32_t>()[i], 6u);
}

TEST_F(DeviceTest, MoreMemoryThanThereIsNamesTheBuffer) {
  const auto device = open_device();
  std::string message;
  const Code code = code_of([&] { const Buffer huge(device, "huge", uint64_t{1} << 45, Memory::device); }, &message);
  EXPECT_EQ(code, Code::out_of_memory) << message;
  EXPECT_NE(message.find("buffer huge"), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(uint64_t{1} << 45)), std::string::npos) << message;
}

TEST_F(DeviceTest, BuffersMove) {
  const auto device = open_device();
  Buffer first = upload(device, "first", std::vector<uint32_t>{1, 2, 3});
  Buffer second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.name(), "first");
  second = upload(device, "second", std::vector<uint32_t>{4, 5});
  EXPECT_EQ(download_as<uint32_t>(device, second), (std::vector<uint32_t>{4, 5}));
}

TEST_F(DeviceTest, FencesAtRestReturnAtOnce) {
  const auto device = open_device();
  Fence fence(device);
  EXPECT_FALSE(fence.pending());
  fence.wait();
  device->submit({}, fence);
  EXPECT_TRUE(fence.pending());
  fence.wait();
  EXPECT_FALSE(fence.pending());
}

// The tests of the operations expect the variants that the plan asks for; here the plan is the one that the driver at
// hand should get.
TEST_F(DeviceTest, PlanSuitsTheDriver) {
  const auto device = open_device();
  const Caps& caps = device->caps();
  if (caps.kind != DeviceKind::cpu) GTEST_SKIP() << "no software driver";
  const bool eight_lanes = caps.driver_id == VK_DRIVER_ID_MESA_LLVMPIPE && caps.subgroup_size == 8;
  EXPECT_EQ(device->plan().texel_products, eight_lanes);
  EXPECT_TRUE(device->plan().subgroup);
  EXPECT_EQ(device->plan().split, 1u);
  EXPECT_EQ(device->plan().tile_tokens, 0u);
  EXPECT_FALSE(device->plan().uniform_parts);
  EXPECT_TRUE(caps.full_subgroups && 64 % caps.subgroup_size == 0) << "the tests with a GPU's plan need them";
}

}  // namespace
}  // namespace weft::test
