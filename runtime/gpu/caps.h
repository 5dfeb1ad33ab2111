// Properties and abilities of a device, as plain data: read once from Vulkan (read_caps in instance.h), or written down
// in a test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

enum class DeviceKind { discrete, integrated, virtual_gpu, cpu, other };
const char* name(DeviceKind kind);

struct Caps {
  std::string name;         // "llvmpipe (LLVM 15.0.6, 256 bits)"
  std::string driver_name;  // "llvmpipe"
  std::string driver_info;  // "Mesa 22.3.6 (LLVM 15.0.6)"
  DeviceKind kind = DeviceKind::other;
  uint32_t vendor_id = 0, device_id = 0;
  uint32_t driver_id = 0;  // VkDriverId; of a device that names none, likely_driver()
  uint32_t driver_version = 0;
  uint32_t api_version = 0;     // VK_MAKE_API_VERSION
  uint8_t cache_uuid[16] = {};  // pipelineCacheUUID

  // Limits, in bytes unless the name says otherwise.
  uint64_t max_range = 0;         // maxStorageBufferRange: the most one binding reaches
  uint64_t max_texels = 0;        // maxTexelBufferElements, count
  uint64_t max_allocation = 0;    // maxMemoryAllocationSize
  uint32_t max_allocations = 0;   // maxMemoryAllocationCount, count
  uint32_t max_bindings = 0;      // maxPerStageDescriptorStorageBuffers, count
  uint32_t offset_alignment = 0;  // the larger of minStorage- and minTexelBufferOffsetAlignment
  uint32_t max_shared = 0;        // maxComputeSharedMemorySize
  uint32_t max_threads = 0;       // maxComputeWorkGroupInvocations, count
  uint32_t max_groups = 0;        // maxComputeWorkGroupCount[0], count
  uint64_t memory = 0;            // the largest device-local heap
  bool unified_memory = false;    // every device-local heap can be mapped

  // Optional features: each can be switched off by name (disable()), and everything works without it.
  bool subgroup = false;        // subgroup arithmetic in compute shaders
  bool shuffle = false;         // subgroup shuffles and votes, likewise
  bool full_subgroups = false;  // computeFullSubgroups, and subgroup ballots in compute shaders
  uint32_t subgroup_size = 0;   // threads; also without arithmetic
  bool timestamps = false;      // on the compute queue
  float timestamp_period = 0;   // nanoseconds a tick
  bool memory_budget = false;   // VK_EXT_memory_budget
  bool fp16 = false;            // shaderFloat16
  bool int8_dot = false;        // shaderIntegerDotProduct
  bool int8_dot_fast = false;   // accelerated, of four signed bytes
  bool matrices = false;        // VK_KHR_cooperative_matrix: subgroups multiply matrices of halves, and sums are floats
  uint32_t matrix_side = 0;     // their rows, columns and inner size: 8 or 16
};

// The VkDriverId of the driver that phones and boards with a vendor's GPU come with, for drivers of Vulkan 1.1 that do
// not name themselves (VK_KHR_driver_properties); 0 for other vendors, whose GPUs have several drivers.
uint32_t likely_driver(uint32_t vendor_id);

// Clears the features named in a comma-separated list: subgroup, shuffle, full_subgroups, timestamps, memory_budget,
// fp16, int8_dot, matrices.
// Throws Error(invalid_argument) naming an unknown one and the list of known ones.
void disable(Caps& caps, std::string_view features);

}  // namespace weft
