// Shared code of tests on a device: the devices, the validation layer's messages, and copies of data to and from a
// device.
//
// The program's main() is in gpu_test.cpp. It turns on validation with synchronization validation where the layer is
// installed (WEFT_VALIDATION=0 keeps it off), points the pipeline cache at a temporary folder, and fails any test
// during which the layer gave a message. The driver is the loader's choice: VK_DRIVER_FILES picks one.
// WEFT_TEST_PLAN=gpu: devices get the plan that a GPU with their limits would have; mali, powervr, v3d: one of these,
// which have few registers; nvidia, qualcomm: an RTX 3060 or an Adreno 630 with its vendor's driver.
// WEFT_TEST_COMPILE_FOR=navi21,...: the run's kernels are compiled for these families at its end (compile_for.h).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/upload.h"

namespace weft::test {

// A test's changes of the plan; 0 keeps the value of the device's own plan.
struct Tuning {
  bool plain = false;  // every optional feature off, as on the weakest device
  uint32_t reduce_threads = 0, split = 0, row_tiles = 0, block_tokens = 0, attend_span = 0, tile_tokens = 0;
  std::optional<bool> half_tiles = {};  // where the device can
  std::optional<bool> matrices = {};    // likewise; the default is the plan's
  bool int8_inputs = false;             // likewise
  uint64_t slice_bytes = 0;
  std::optional<bool> texel_products = {};  // where the device can
  bool fewest_registers = false;
  bool gates_apart = false;
  uint32_t staged_cols = 0;

  std::string name() const;  // "plain split=2": for SCOPED_TRACE
};

// The device for a tuning: opened at its first use, shared by all tests of the program and by tunings of the same plan.
std::shared_ptr<Device> open_device(const Tuning& tuning = {});

// Plan of a device in this run, as WEFT_TEST_PLAN says.
Plan plan_of(const Caps& caps);

// The folder that pipeline caches of this run go to; it is removed at the end.
std::filesystem::path cache_folder();

// Base of every test that needs a device: without one the test is skipped, with the reason.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override;
};

template <class T>
Buffer upload(const std::shared_ptr<Device>& device, const std::string& name, const std::vector<T>& values) {
  Buffer buffer(device, name, values.size() * sizeof(T), Memory::device);
  Uploader(device).upload(View(buffer), std::span<const T>(values));
  return buffer;
}

// A mapped buffer that both sides read and write.
template <class T>
Buffer share(const std::shared_ptr<Device>& device, const std::string& name, const std::vector<T>& values) {
  Buffer buffer(device, name, values.size() * sizeof(T), Memory::shared);
  std::memcpy(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

// A buffer of `count` floats that all hold a NaN nobody computes, so that tests see what a kernel did not write.
Buffer poisoned(const std::shared_ptr<Device>& device, const std::string& name, uint64_t count);
inline constexpr uint32_t kPoison = 0xffc0dead;
bool is_poison(float value);

// |got[i] - want[i]| <= tolerance[i]; where want is NaN, got must still be poison. Reports the first element that is
// not.
testing::AssertionResult close_to(const std::vector<float>& got, const std::vector<double>& want,
                                  const std::vector<double>& tolerance);
// The same with one factor: tolerance[i] = relative * |want[i]|.
testing::AssertionResult close_to(const std::vector<float>& got, const std::vector<double>& want, double relative);

// Half a unit in the last place of a float that may be rounded either way (the precision Vulkan requires of + and *).
inline constexpr double kRounding = 0x1p-23;
// Bound on the relative error of a sum of `terms` products in fp32 in any order (Higham 2002, "Accuracy and Stability
// of Numerical Algorithms", section 3.1), to be multiplied by the sum of the products' magnitudes; above some hundred
// terms errors cancel and 1e-5 is what a right kernel keeps.
double dot_error(uint32_t terms);

}  // namespace weft::test
