// The device memory that buffers come from. The allocator and the question of what would fit both use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/caps.h"

namespace weft {

// Parameters for creating a buffer of `bytes` bytes.
VkBufferCreateInfo buffer_info(uint64_t bytes);

class MemoryMap {
 public:
  MemoryMap(VkPhysicalDevice device, DeviceKind kind);

  // The memory types of an intent, best first, out of those that a buffer allows (VkMemoryRequirements).
  std::vector<uint32_t> types(Memory memory, uint32_t allowed = UINT32_MAX) const;
  // The heaps of Memory::device, in the order in which they are filled. A device that shares the host's memory uses it
  // after its own is full; a card does not, because its own is many times as fast.
  std::vector<uint32_t> heaps(uint32_t allowed = UINT32_MAX) const;
  // Bytes of these heaps.
  uint64_t bytes() const;
  // Free bytes of each of them, as the driver reports (VK_EXT_memory_budget), at most the heap's size.
  std::vector<uint64_t> room(bool has_budget, uint32_t allowed = UINT32_MAX) const;
  // Free bytes for Memory::device of a type, where more would be moved to the host's memory while it is in use, or
  // other programs' memory in its place: a card whose driver reports its budget. UINT64_MAX on other devices.
  uint64_t free_bytes(uint32_t type, bool has_budget) const;
  // True if a type's memory is the device's own.
  bool is_local(uint32_t type) const;

 private:
  VkPhysicalDevice device_;
  uint64_t room_of_heap(uint32_t heap, const VkPhysicalDeviceMemoryBudgetPropertiesEXT& budget) const;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT read_budget(bool has_budget) const;  // all 0 without one
  bool shares_host_;
  VkPhysicalDeviceMemoryProperties memory_ = {};
};

// MemoryMap::room of an open device, by what a buffer of Weft's may be in.
std::vector<uint64_t> room_of(const Device& device);

// True if indivisible pieces, and after them `bytes` bytes in smaller ones, fit in heaps with this room.
bool fits(std::span<const uint64_t> pieces, uint64_t bytes, std::vector<uint64_t> room);

}  // namespace weft
