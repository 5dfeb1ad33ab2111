#include "gpu/memory_map.h"

#include <algorithm>
#include <numeric>

#include "gpu/device.h"

namespace weft {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
// Types that need a feature Weft does not switch on.
constexpr VkMemoryPropertyFlags kForbidden = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                                             VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD |
                                             VK_MEMORY_PROPERTY_PROTECTED_BIT;
constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

// Property sets of an intent, best first. The last of each is guaranteed by the specification, but kLocal only for some
// type, which need not be one that a buffer allows.
std::vector<VkMemoryPropertyFlags> wishes(Memory memory, bool shares_host) {
  switch (memory) {
    case Memory::device:
      if (!shares_host) return {kLocal};
      return {kLocal, 0};
    case Memory::shared:
      return {kMapped | kLocal, kMapped};
    case Memory::upload:
      return {kMapped};
    case Memory::readback:
      return {kMapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kMapped};
  }
  return {0};
}

}  // namespace

VkBufferCreateInfo buffer_info(uint64_t bytes) {
  return {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
          nullptr,
          0,
          bytes,
          VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
              VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
          VK_SHARING_MODE_EXCLUSIVE,
          0,
          nullptr};
}

MemoryMap::MemoryMap(VkPhysicalDevice device, DeviceKind kind)
    : device_(device), shares_host_(kind == DeviceKind::integrated || kind == DeviceKind::cpu) {
  vkGetPhysicalDeviceMemoryProperties(device, &memory_);
}

std::vector<uint32_t> MemoryMap::types(Memory memory, uint32_t allowed) const {
  std::vector<uint32_t> list;
  const auto add = [&](VkMemoryPropertyFlags wish) {
    for (uint32_t type = 0; type < memory_.memoryTypeCount; ++type) {
      const VkMemoryPropertyFlags flags = memory_.memoryTypes[type].propertyFlags;
      if ((allowed >> type & 1) && (flags & wish) == wish && !(flags & kForbidden) &&
          std::ranges::find(list, type) == list.end())
        list.push_back(type);
    }
  };
  for (const VkMemoryPropertyFlags wish : wishes(memory, shares_host_)) add(wish);
  if (list.empty()) add(0);
  return list;
}

std::vector<uint32_t> MemoryMap::heaps(uint32_t allowed) const {
  std::vector<uint32_t> list;
  for (const uint32_t type : types(Memory::device, allowed))
    if (const uint32_t heap = memory_.memoryTypes[type].heapIndex; std::ranges::find(list, heap) == list.end())
      list.push_back(heap);
  return list;
}

uint64_t MemoryMap::bytes() const {
  uint64_t bytes = 0;
  for (const uint32_t heap : heaps()) bytes += memory_.memoryHeaps[heap].size;
  return bytes;
}

VkPhysicalDeviceMemoryBudgetPropertiesEXT MemoryMap::read_budget(bool has_budget) const {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, &budget};
  if (has_budget) vkGetPhysicalDeviceMemoryProperties2(device_, &memory);
  return budget;
}

uint64_t MemoryMap::room_of_heap(uint32_t heap, const VkPhysicalDeviceMemoryBudgetPropertiesEXT& budget) const {
  const uint64_t size = memory_.memoryHeaps[heap].size;
  // A driver that has not counted yet says 0.
  const uint64_t most = budget.heapBudget[heap] ? std::min<uint64_t>(budget.heapBudget[heap], size) : size;
  return most - std::min<uint64_t>(most, budget.heapUsage[heap]);
}

std::vector<uint64_t> MemoryMap::room(bool has_budget, uint32_t allowed) const {
  const VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = read_budget(has_budget);
  std::vector<uint64_t> room;
  for (const uint32_t heap : heaps(allowed)) room.push_back(room_of_heap(heap, budget));
  return room;
}

uint64_t MemoryMap::free_bytes(uint32_t type, bool has_budget) const {
  if (shares_host_ || !has_budget) return UINT64_MAX;
  return room_of_heap(memory_.memoryTypes[type].heapIndex, read_budget(true));
}

bool MemoryMap::is_local(uint32_t type) const {
  return memory_.memoryHeaps[memory_.memoryTypes[type].heapIndex].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
}

std::vector<uint64_t> room_of(const Device& device) {
  const VolkDeviceTable& vk = device.vk();
  const VkBufferCreateInfo info = buffer_info(kViewAlignment);
  VkBuffer buffer = VK_NULL_HANDLE;
  VkMemoryRequirements needs = {};
  needs.memoryTypeBits = UINT32_MAX;
  if (vk.vkCreateBuffer(device.handle(), &info, nullptr, &buffer) == VK_SUCCESS) {
    vk.vkGetBufferMemoryRequirements(device.handle(), buffer, &needs);
    vk.vkDestroyBuffer(device.handle(), buffer, nullptr);
  }
  return MemoryMap(device.physical(), device.caps().kind).room(device.caps().memory_budget, needs.memoryTypeBits);
}

bool fits(std::span<const uint64_t> pieces, uint64_t bytes, std::vector<uint64_t> room) {
  for (const uint64_t piece : pieces) {
    const auto heap = std::ranges::find_if(room, [&](uint64_t free) { return free >= piece; });
    if (heap == room.end()) return false;
    *heap -= piece;
  }
  return bytes <= std::accumulate(room.begin(), room.end(), uint64_t{0});
}

}  // namespace weft
