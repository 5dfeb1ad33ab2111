// Devices with other memory than the machine's. Programs that link the losable Vulkan loader have them.
#pragma once

#include <cstdint>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

struct PretendedHeap {
  VkMemoryHeapFlags flags;
  uint64_t bytes;
};
struct PretendedType {
  VkMemoryPropertyFlags flags;
  uint32_t heap;
};
struct PretendedDevice {
  VkPhysicalDeviceType kind;
  std::vector<PretendedHeap> heaps;
  std::vector<PretendedType> types;
  double budget = 0;              // of each heap's size, VK_EXT_memory_budget says; 0: it does not
  uint32_t allowed = UINT32_MAX;  // types that a buffer may have
  bool overcommits = false;       // allocates more than a heap has, as drivers do that move memory to the host's
  uint32_t driver_version = 0;    // 0: the machine's
};

// The loader lists these instead of the machine's devices, and computes on its first one. Each heap has the bytes that
// it says, and is mapped only by types that the host sees. Empty: the machine's own. While no instance is there.
void pretend_devices(const std::vector<PretendedDevice>& devices);
// Bytes of a heap that are in use.
uint64_t taken_of(size_t device, uint32_t heap);

// `next`, if it is there, goes to `kept`, and `own` comes before it.
template <class Function>
PFN_vkVoidFunction replaced_function(PFN_vkVoidFunction next, Function& kept, Function own) {
  if (!next) return next;
  kept = reinterpret_cast<Function>(next);
  return reinterpret_cast<PFN_vkVoidFunction>(own);
}

// The function of that name with these devices in it, before `next`. For the loader.
PFN_vkVoidFunction pretended_function(const char* name, PFN_vkVoidFunction next);
