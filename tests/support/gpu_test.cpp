#include "support/gpu_test.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "gpu/instance.h"
#include "support/compile_for.h"

namespace weft::test {

namespace {

std::map<std::string, std::shared_ptr<Device>> g_devices;
std::string g_skip_reason;  // why there is no device
std::filesystem::path g_cache_folder;

// Fails the test during which the validation layer gave a message.
class ValidationListener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { known_ = Instance::validation_messages().size(); }
  void OnTestEnd(const testing::TestInfo&) override { report(); }
  // Devices are destroyed at the end of the program, and the layer then counts what was left behind.
  void OnEnvironmentsTearDownEnd(const testing::UnitTest&) override { report(); }

  void report() {
    const std::vector<std::string> messages = Instance::validation_messages();
    for (; known_ < messages.size(); ++known_) ADD_FAILURE() << "validation: " << messages[known_];
  }
  size_t known_ = 0;
};

class DevicesEnvironment : public testing::Environment {
  void TearDown() override {
    std::map<std::string, KernelSpec> kernels;
    for (const auto& [tuning, device] : g_devices)
      // Null: opening failed. Tunings with row_tiles are awkward, or for software drivers.
      if (device && tuning.find("row_tiles") == std::string::npos)
        for (const Kernel* kernel : device->kernels()) kernels.emplace(kernel->label(), kernel->spec());
    g_devices.clear();
    if (const char* families = std::getenv("WEFT_TEST_COMPILE_FOR")) compile_for(families, kernels);
    std::error_code ignored;
    std::filesystem::remove_all(g_cache_folder, ignored);
  }
};

void make_cache_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw Error(Code::io, "cannot make a temporary folder", pattern);
  g_cache_folder = pattern;
  setenv("WEFT_CACHE_DIR", pattern.c_str(), 1);
}

// Finds out whether there is a device, and a validation layer.
void probe() {
  setenv("WEFT_VALIDATION", "1", 0);
  try {
    Instance::get();
  } catch (const Error& error) {
    if (error.code() != Code::not_found) {
      g_skip_reason = error.what();
      return;
    }
    std::cout << "NOTICE: no validation in this run: " << error.what() << "\n";
    unsetenv("WEFT_VALIDATION");
  }
  try {
    const std::shared_ptr<Device> device = open_device();
    const char* const validation = std::getenv("WEFT_VALIDATION");
    const bool on = validation && std::string_view(validation) != "0";
    std::cout << "Device: " << device->caps().name << ", " << device->caps().driver_info << ", validation "
              << (on ? "on" : "off") << std::endl;
  } catch (const Error& error) {
    g_skip_reason = error.what();
  }
}

}  // namespace

// A GPU that a device is planned as. Limits are those of recorded devices (gpu_plan_test.cpp): the device's own hold
// where they are lower.
struct Chip {
  VkDriverId driver = VK_DRIVER_ID_MESA_RADV;  // with most that a plan can have
  DeviceKind kind = DeviceKind::discrete;
  uint32_t device_id = 0;
  uint64_t max_range = UINT32_MAX;
  uint32_t max_shared = 65536, max_threads = 1024;
};

static Plan gpu_plan(Caps caps, const Chip& chip = {}) {
  caps.kind = chip.kind;
  caps.driver_id = chip.driver;
  if (chip.device_id) caps.device_id = chip.device_id;
  caps.max_range = std::min(caps.max_range, chip.max_range);
  caps.max_shared = std::min(caps.max_shared, chip.max_shared);
  caps.max_threads = std::min(caps.max_threads, chip.max_threads);
  return make_plan(caps);
}

Plan plan_of(const Caps& caps) {
  const char* const plan = std::getenv("WEFT_TEST_PLAN");
  if (!plan) return make_plan(caps);
  constexpr uint64_t kMiB = 1 << 20;
  const std::map<std::string_view, Chip> chips = {
      {"gpu", {}},
      {"mali", {.driver = VK_DRIVER_ID_MESA_PANVK}},
      {"powervr", {.driver = VK_DRIVER_ID_IMAGINATION_OPEN_SOURCE_MESA}},
      {"v3d", {.driver = VK_DRIVER_ID_MESA_V3DV}},
      {"nvidia", {.driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY, .max_shared = 49152}},  // RTX 3060
      {"qualcomm",
       {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
        .kind = DeviceKind::integrated,
        .device_id = 0x06030001,  // Adreno 630
        .max_range = 128 * kMiB,
        .max_shared = 32768}}};
  const auto chip = chips.find(plan);
  if (chip == chips.end()) throw std::invalid_argument(std::string("WEFT_TEST_PLAN names no plan: ") + plan);
  return gpu_plan(caps, chip->second);
}

std::string Tuning::name() const {
  std::string text = plain ? "plain" : "default";
  if (reduce_threads) text += " reduce_threads=" + std::to_string(reduce_threads);
  if (split) text += " split=" + std::to_string(split);
  if (row_tiles) text += " row_tiles=" + std::to_string(row_tiles);
  if (texel_products) text += *texel_products ? " texel" : " buffer";
  if (fewest_registers) text += " fewest_registers";
  if (gates_apart) text += " gates_apart";
  if (attend_span) text += " attend_span=" + std::to_string(attend_span);
  if (block_tokens) text += " block_tokens=" + std::to_string(block_tokens);
  if (tile_tokens) text += " tile_tokens=" + std::to_string(tile_tokens);
  if (half_tiles) text += *half_tiles ? " halves" : " floats";
  if (matrices) text += *matrices ? " matrices" : " lanes";
  if (int8_inputs) text += " int8";
  if (slice_bytes) text += " slice_bytes=" + std::to_string(slice_bytes);
  if (staged_cols) text += " staged_cols=" + std::to_string(staged_cols);
  return text;
}

// The device's own plan, changed as the tuning says.
static Plan tuned_plan(const Caps& caps, const Tuning& tuning) {
  Plan plan = plan_of(caps);
  if (tuning.plain) {
    plan.subgroup = plan.texel_products = plan.uniform_parts = plan.half_tiles = false;
    plan.matrix_side = 0;
    plan.profile_every = 0;
  }
  if (tuning.reduce_threads) plan.reduce_threads = tuning.reduce_threads;
  if (tuning.split) plan.split = tuning.split;
  if (tuning.row_tiles) plan.row_tiles = tuning.row_tiles;
  if (tuning.texel_products) plan.texel_products &= *tuning.texel_products;
  plan.fewest_registers |= tuning.fewest_registers;
  plan.gates_apart |= tuning.gates_apart;
  if (tuning.attend_span) plan.attend_span = tuning.attend_span;
  if (tuning.block_tokens) plan.block_tokens = tuning.block_tokens;
  if (tuning.tile_tokens) plan.tile_tokens = tuning.tile_tokens;
  if (tuning.matrices) plan.matrix_side = *tuning.matrices ? gpu_plan(caps).matrix_side : 0;
  if (tuning.half_tiles) plan.half_tiles = *tuning.half_tiles && caps.fp16;
  if (tuning.int8_inputs && caps.int8_dot) {
    Caps fast = caps;
    fast.int8_dot_fast = true;  // software drivers compute the same, slowly
    round_inputs(plan, fast);
  }
  if (tuning.slice_bytes) plan.slice_bytes = tuning.slice_bytes;
  if (tuning.staged_cols) plan.staged_cols = tuning.staged_cols;
  return plan;
}

// Tunings that come to the same plan share a device and its pipelines: SwiftShader compiles some for seconds.
std::shared_ptr<Device> open_device(const Tuning& tuning) {
  std::shared_ptr<Device>& device = g_devices[tuning.name()];
  if (device) return device;
  const auto opened = Device::open({}, [&](const Caps& caps) { return tuned_plan(caps, tuning); });
  const auto same = std::ranges::find_if(
      g_devices, [&](const auto& other) { return other.second && other.second->plan() == opened->plan(); });
  return device = same == g_devices.end() ? opened : same->second;
}

std::filesystem::path cache_folder() { return g_cache_folder; }

void GpuTest::SetUp() {
  if (!g_skip_reason.empty()) GTEST_SKIP() << g_skip_reason;
}

Buffer poisoned(const std::shared_ptr<Device>& device, const std::string& name, uint64_t count) {
  Buffer buffer(device, name, count * 4, Memory::device);
  run_once(device, "poison", [&](Recorder& recorder) { recorder.fill(buffer, kPoison); });
  return buffer;
}

bool is_poison(float value) { return std::bit_cast<uint32_t>(value) == kPoison; }

testing::AssertionResult close_to(const std::vector<float>& got, const std::vector<double>& want,
                                  const std::vector<double>& tolerance) {
  if (got.size() != want.size() || want.size() != tolerance.size())
    return testing::AssertionFailure() << got.size() << " values, expected " << want.size() << " with "
                                       << tolerance.size() << " tolerances";
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      if (!is_poison(got[i]))
        return testing::AssertionFailure() << "[" << i << "] was written (" << got[i] << "), and should not have been";
    } else if (!(std::abs(got[i] - want[i]) <= tolerance[i])) {
      return testing::AssertionFailure() << "[" << i << "] of " << got.size() << " is " << got[i] << ", expected "
                                         << want[i] << ", off by " << std::abs(got[i] - want[i]) << ", allowed "
                                         << tolerance[i] << (is_poison(got[i]) ? " (never written)" : "");
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult close_to(const std::vector<float>& got, const std::vector<double>& want, double relative) {
  std::vector<double> tolerance(want.size());
  for (size_t i = 0; i < want.size(); ++i) tolerance[i] = relative * std::abs(want[i]);
  return close_to(got, want, tolerance);
}

double dot_error(uint32_t terms) { return std::min((terms + 4) * kRounding, 1e-5); }

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  weft::test::make_cache_folder();
  weft::test::probe();
  testing::AddGlobalTestEnvironment(new weft::test::DevicesEnvironment);
  testing::UnitTest::GetInstance()->listeners().Append(new weft::test::ValidationListener);
  return RUN_ALL_TESTS();
}
