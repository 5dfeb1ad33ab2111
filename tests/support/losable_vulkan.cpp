#include "support/losable_vulkan.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

namespace {

std::mutex g_mutex;  // guards all below
size_t g_left = [] {
  const char* text = std::getenv("WEFT_LOSE_DEVICE_AT");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}();
size_t g_hang_left = 0, g_submissions = 0, g_destroyed = 0, g_created = 0;
bool g_refuse = false, g_refuse_memory = false;
std::set<VkDevice> g_open, g_lost, g_hung;
std::map<VkQueue, VkDevice> g_devices;

PFN_vkGetInstanceProcAddr real_instance_function() {
  static const auto function = [] {
    void* const loader = dlopen(WEFT_VULKAN_LOADER, RTLD_NOW | RTLD_LOCAL);
    return loader ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr")) : nullptr;
  }();
  return function;
}

// The functions of the last device that was asked for: all of one driver.
PFN_vkGetDeviceProcAddr g_device_function = nullptr;
PFN_vkCreateDevice g_create = nullptr;
template <class Function>
Function real(VkDevice device, const char* name) {
  return reinterpret_cast<Function>(g_device_function(device, name));
}

bool lost(VkDevice device) {
  const std::lock_guard lock(g_mutex);
  return g_lost.contains(device);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  const std::lock_guard lock(g_mutex);
  if (g_refuse) return VK_ERROR_INITIALIZATION_FAILED;
  const VkResult result = g_create(physical, info, allocator, device);
  if (result != VK_SUCCESS) return result;
  g_open.insert(*device);
  ++g_created;
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    g_open.erase(device);
    g_destroyed += g_hung.erase(device);
    g_lost.erase(device);
    std::erase_if(g_devices, [&](const auto& entry) { return entry.second == device; });
  }
  real<PFN_vkDestroyDevice>(device, "vkDestroyDevice")(device, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* memory) {
  {
    const std::lock_guard lock(g_mutex);
    if (g_refuse_memory) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  return real<PFN_vkAllocateMemory>(device, "vkAllocateMemory")(device, info, allocator, memory);
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    g_destroyed += g_hung.contains(device);
  }
  real<PFN_vkFreeMemory>(device, "vkFreeMemory")(device, memory, allocator);
}

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
  real<PFN_vkGetDeviceQueue>(device, "vkGetDeviceQueue")(device, family, index, queue);
  const std::lock_guard lock(g_mutex);
  g_devices[*queue] = device;
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  VkDevice device = VK_NULL_HANDLE;
  {
    const std::lock_guard lock(g_mutex);
    device = g_devices.at(queue);
    ++g_submissions;
    const bool hangs = g_hang_left == 1;
    if (g_hang_left > 0) --g_hang_left;
    if (hangs) g_hung.insert(device);
    if (g_hung.contains(device)) return VK_SUCCESS;
    const bool last = g_left == 1;
    if (g_left > 0) --g_left;
    if (last) g_lost.insert(device);
    if (!last && g_lost.contains(device)) return VK_ERROR_DEVICE_LOST;
    if (!last) return real<PFN_vkQueueSubmit>(device, "vkQueueSubmit")(queue, count, infos, fence);
  }
  real<PFN_vkDeviceWaitIdle>(device, "vkDeviceWaitIdle")(device);  // this one really runs: nothing may go under it
  return VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice device, uint32_t count, const VkFence* fences, VkBool32 all,
                                               uint64_t timeout) {
  if (lost(device)) return VK_ERROR_DEVICE_LOST;
  {
    const std::lock_guard lock(g_mutex);
    if (g_hung.contains(device)) return VK_TIMEOUT;  // the seconds are left out
  }
  return real<PFN_vkWaitForFences>(device, "vkWaitForFences")(device, count, fences, all, timeout);
}

VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence) {
  return lost(device) ? VK_ERROR_DEVICE_LOST : real<PFN_vkGetFenceStatus>(device, "vkGetFenceStatus")(device, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkDevice device) {
  return lost(device) ? VK_ERROR_DEVICE_LOST : real<PFN_vkDeviceWaitIdle>(device, "vkDeviceWaitIdle")(device);
}

template <class Function>
PFN_vkVoidFunction as_void(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
  const std::map<std::string_view, PFN_vkVoidFunction> own = {
      {"vkAllocateMemory", as_void(allocate)},      {"vkFreeMemory", as_void(free_memory)},
      {"vkDestroyDevice", as_void(destroy_device)}, {"vkGetDeviceQueue", as_void(get_queue)},
      {"vkQueueSubmit", as_void(submit)},           {"vkWaitForFences", as_void(wait_for_fences)},
      {"vkGetFenceStatus", as_void(fence_status)},  {"vkDeviceWaitIdle", as_void(wait_idle)}};
  const auto found = own.find(name);
  return found != own.end() ? found->second : g_device_function(device, name);
}

}  // namespace

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (!real_instance_function()) return nullptr;
  const PFN_vkVoidFunction function = real_instance_function()(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    g_device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(function);
    return as_void(device_function);
  }
  if (std::strcmp(name, "vkCreateDevice") == 0) {
    g_create = reinterpret_cast<PFN_vkCreateDevice>(function);
    return as_void(create_device);
  }
  return function;
}

extern "C" void lose_device_at(size_t n) {
  const std::lock_guard lock(g_mutex);
  g_left = n;
  g_submissions = 0;
}
extern "C" void hang_device_at(size_t n) {
  const std::lock_guard lock(g_mutex);
  g_hang_left = n;
  g_destroyed = 0;
}
extern "C" size_t destroyed_under_way() {
  const std::lock_guard lock(g_mutex);
  return g_destroyed;
}
extern "C" size_t submissions() {
  const std::lock_guard lock(g_mutex);
  return g_submissions;
}
extern "C" void refuse_devices(bool refuse) {
  const std::lock_guard lock(g_mutex);
  g_refuse = refuse;
}
extern "C" void refuse_memory(bool refuse) {
  const std::lock_guard lock(g_mutex);
  g_refuse_memory = refuse;
}
extern "C" size_t created_devices() {
  const std::lock_guard lock(g_mutex);
  return g_created;
}
extern "C" size_t open_devices() {
  const std::lock_guard lock(g_mutex);
  return g_open.size();
}
