#include "support/pretended_devices.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace {

struct Device : PretendedDevice {
  explicit Device(const PretendedDevice& like) : PretendedDevice(like), taken(like.heaps.size()) {}
  std::vector<uint64_t> taken;
};
struct Taken {
  size_t device;
  uint32_t type;
  uint64_t bytes;
};

std::mutex g_mutex;  // guards all below
std::vector<Device> g_devices;
VkPhysicalDevice g_real = VK_NULL_HANDLE;  // of all of them
std::map<VkDevice, size_t> g_opened;
std::map<VkDeviceMemory, Taken> g_taken;

Device* pretended(VkPhysicalDevice handle) {
  for (Device& device : g_devices)
    if (reinterpret_cast<VkPhysicalDevice>(&device) == handle) return &device;
  return nullptr;
}
VkPhysicalDevice real(VkPhysicalDevice handle) {
  const std::lock_guard lock(g_mutex);
  return pretended(handle) ? g_real : handle;
}

// A function of a physical device, which is told of the real one.
template <class Tag, class Function>
struct Physical;
template <class Tag, class Result, class... Rest>
struct Physical<Tag, Result (*)(VkPhysicalDevice, Rest...)> {
  static inline Result (*next)(VkPhysicalDevice, Rest...) = nullptr;
  static Result call(VkPhysicalDevice device, Rest... rest) { return next(real(device), rest...); }
};

PFN_vkEnumeratePhysicalDevices g_enumerate = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t* count, VkPhysicalDevice* list) {
  std::unique_lock lock(g_mutex);
  if (g_devices.empty()) {
    lock.unlock();
    return g_enumerate(instance, count, list);
  }
  uint32_t one = 1;
  const VkResult result = g_enumerate(instance, &one, &g_real);
  if (result < 0) return result;
  const uint32_t all = static_cast<uint32_t>(g_devices.size()), room = list ? *count : all;
  *count = std::min(all, room);
  for (uint32_t i = 0; list && i < *count; ++i) list[i] = reinterpret_cast<VkPhysicalDevice>(&g_devices[i]);
  return room < all ? VK_INCOMPLETE : VK_SUCCESS;
}

void change(const Device& device, VkPhysicalDeviceProperties& properties) {
  properties.deviceType = device.kind;
  if (device.driver_version > 0) properties.driverVersion = device.driver_version;
}
PFN_vkGetPhysicalDeviceProperties g_properties = nullptr;
VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties* out) {
  g_properties(real(handle), out);
  const std::lock_guard lock(g_mutex);
  if (const Device* device = pretended(handle)) change(*device, *out);
}
PFN_vkGetPhysicalDeviceProperties2 g_properties2 = nullptr;
VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice handle, VkPhysicalDeviceProperties2* out) {
  g_properties2(real(handle), out);
  const std::lock_guard lock(g_mutex);
  if (const Device* device = pretended(handle)) change(*device, out->properties);
}

void change(const Device& device, VkPhysicalDeviceMemoryProperties& memory) {
  memory = {};
  for (const PretendedHeap& heap : device.heaps)
    memory.memoryHeaps[memory.memoryHeapCount++] = {heap.bytes, heap.flags};
  for (const PretendedType& type : device.types) memory.memoryTypes[memory.memoryTypeCount++] = {type.flags, type.heap};
}
PFN_vkGetPhysicalDeviceMemoryProperties g_memory = nullptr;
VKAPI_ATTR void VKAPI_CALL memory(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties* out) {
  g_memory(real(handle), out);
  const std::lock_guard lock(g_mutex);
  if (const Device* device = pretended(handle)) change(*device, *out);
}
PFN_vkGetPhysicalDeviceMemoryProperties2 g_memory2 = nullptr;
VKAPI_ATTR void VKAPI_CALL memory2(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties2* out) {
  g_memory2(real(handle), out);
  const std::lock_guard lock(g_mutex);
  const Device* const device = pretended(handle);
  if (!device) return;
  change(*device, out->memoryProperties);
  for (auto* next = static_cast<VkBaseOutStructure*>(out->pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    auto& budget = reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT&>(*next);
    for (size_t heap = 0; heap < device->heaps.size(); ++heap) {
      budget.heapBudget[heap] = static_cast<uint64_t>(static_cast<double>(device->heaps[heap].bytes) * device->budget);
      budget.heapUsage[heap] = device->taken[heap];
    }
  }
}

bool is_budget(const VkExtensionProperties& extension) {
  return std::strcmp(extension.extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
}
PFN_vkEnumerateDeviceExtensionProperties g_extensions = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice handle, const char* layer, uint32_t* count,
                                          VkExtensionProperties* list) {
  uint32_t all = 0;
  VkResult result = g_extensions(real(handle), layer, &all, nullptr);
  std::vector<VkExtensionProperties> found(all);
  if (result == VK_SUCCESS) result = g_extensions(real(handle), layer, &all, found.data());
  if (result != VK_SUCCESS) return result;
  {
    const std::lock_guard lock(g_mutex);
    if (const Device* const device = pretended(handle)) {
      std::erase_if(found, is_budget);
      if (device->budget > 0) found.push_back({VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 1});
    }
  }
  const uint32_t room = list ? *count : static_cast<uint32_t>(found.size());
  *count = std::min(room, static_cast<uint32_t>(found.size()));
  if (list) std::copy_n(found.begin(), *count, list);
  return room < found.size() ? VK_INCOMPLETE : VK_SUCCESS;
}

PFN_vkCreateDevice g_create = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL create(VkPhysicalDevice handle, const VkDeviceCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkDevice* device) {
  const VkPhysicalDevice own = real(handle);
  VkDeviceCreateInfo changed = *info;
  std::vector<const char*> names(info->ppEnabledExtensionNames,
                                 info->ppEnabledExtensionNames + info->enabledExtensionCount);
  if (own != handle)
    std::erase_if(names, [](const char* name) { return std::strcmp(name, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0; });
  changed.enabledExtensionCount = static_cast<uint32_t>(names.size());
  changed.ppEnabledExtensionNames = names.data();
  const VkResult result = g_create(own, &changed, allocator, device);
  const std::lock_guard lock(g_mutex);
  const Device* const which = pretended(handle);
  if (result == VK_SUCCESS && which) g_opened[*device] = static_cast<size_t>(which - g_devices.data());
  return result;
}
PFN_vkDestroyDevice g_destroy = nullptr;
VKAPI_ATTR void VKAPI_CALL destroy(VkDevice device, const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    g_opened.erase(device);
  }
  g_destroy(device, allocator);
}

PFN_vkAllocateMemory g_allocate = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice handle, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* out) {
  std::unique_lock lock(g_mutex);
  const auto opened = g_opened.find(handle);
  if (opened == g_opened.end()) {
    lock.unlock();
    return g_allocate(handle, info, allocator, out);
  }
  Device& device = g_devices[opened->second];
  const uint32_t heap = device.types[info->memoryTypeIndex].heap;
  if (!device.overcommits && device.taken[heap] + info->allocationSize > device.heaps[heap].bytes)
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkMemoryAllocateInfo own = *info;
  own.memoryTypeIndex = 0;
  const VkResult result = g_allocate(handle, &own, allocator, out);
  if (result != VK_SUCCESS) return result;
  device.taken[heap] += info->allocationSize;
  g_taken[*out] = {opened->second, info->memoryTypeIndex, info->allocationSize};
  return result;
}
PFN_vkFreeMemory g_free = nullptr;
VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    if (const auto found = g_taken.find(memory); found != g_taken.end()) {
      Device& of = g_devices[found->second.device];
      of.taken[of.types[found->second.type].heap] -= found->second.bytes;
      g_taken.erase(found);
    }
  }
  g_free(device, memory, allocator);
}
PFN_vkMapMemory g_map = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size,
                                   VkMemoryMapFlags flags, void** data) {
  {
    const std::lock_guard lock(g_mutex);
    const auto found = g_taken.find(memory);
    if (found != g_taken.end() &&
        !(g_devices[found->second.device].types[found->second.type].flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
      return VK_ERROR_MEMORY_MAP_FAILED;
  }
  return g_map(device, memory, offset, size, flags, data);
}
PFN_vkGetBufferMemoryRequirements g_requirements = nullptr;
VKAPI_ATTR void VKAPI_CALL requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements* out) {
  g_requirements(device, buffer, out);
  const std::lock_guard lock(g_mutex);
  if (const auto opened = g_opened.find(device); opened != g_opened.end()) {
    const Device& of = g_devices[opened->second];
    out->memoryTypeBits = ((1u << of.types.size()) - 1) & of.allowed;
  }
}

}  // namespace

void pretend_devices(const std::vector<PretendedDevice>& devices) {
  const std::lock_guard lock(g_mutex);
  g_devices.clear();
  for (const PretendedDevice& device : devices) g_devices.emplace_back(device);
}

uint64_t taken_of(size_t device, uint32_t heap) {
  const std::lock_guard lock(g_mutex);
  return g_devices.at(device).taken.at(heap);
}

PFN_vkVoidFunction pretended_function(const char* name, PFN_vkVoidFunction next) {
#define WEFT_PRETENDED(NAME, KEPT, OWN) \
  if (std::strcmp(name, #NAME) == 0) return replaced_function<PFN_##NAME>(next, KEPT, OWN);
#define WEFT_PHYSICAL(NAME, TYPE)    \
  struct Tag##NAME {};               \
  if (std::strcmp(name, #NAME) == 0) \
    return replaced_function<TYPE>(next, Physical<Tag##NAME, TYPE>::next, Physical<Tag##NAME, TYPE>::call);
  WEFT_PRETENDED(vkEnumeratePhysicalDevices, g_enumerate, enumerate)
  WEFT_PRETENDED(vkGetPhysicalDeviceProperties, g_properties, properties)
  WEFT_PRETENDED(vkGetPhysicalDeviceProperties2, g_properties2, properties2)
  WEFT_PRETENDED(vkGetPhysicalDeviceMemoryProperties, g_memory, memory)
  WEFT_PRETENDED(vkGetPhysicalDeviceMemoryProperties2, g_memory2, memory2)
  WEFT_PRETENDED(vkEnumerateDeviceExtensionProperties, g_extensions, extensions)
  WEFT_PRETENDED(vkCreateDevice, g_create, create)
  WEFT_PRETENDED(vkDestroyDevice, g_destroy, destroy)
  WEFT_PRETENDED(vkAllocateMemory, g_allocate, allocate)
  WEFT_PRETENDED(vkFreeMemory, g_free, free_memory)
  WEFT_PRETENDED(vkMapMemory, g_map, map)
  WEFT_PRETENDED(vkGetBufferMemoryRequirements, g_requirements, requirements)
  WEFT_PHYSICAL(vkGetPhysicalDeviceFeatures2, PFN_vkGetPhysicalDeviceFeatures2)
  WEFT_PHYSICAL(vkGetPhysicalDeviceQueueFamilyProperties, PFN_vkGetPhysicalDeviceQueueFamilyProperties)
  using GetMatrices = VkResult (*)(VkPhysicalDevice, uint32_t*, void*);  // older headers have no type of it
  WEFT_PHYSICAL(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, GetMatrices)
  return next;
}
