#include "support/losable_vulkan.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "support/faulty_compiler.h"
#include "support/pretended_devices.h"

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

// Submissions whose fences were not waited for yet, and for how long there was one.
using Clock = std::chrono::steady_clock;
std::set<VkFence> g_under_way;
size_t g_most_under_way = 0;
Clock::time_point g_busy_since;
Clock::duration g_busy{}, g_longest_busy{};

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
  const VkResult result = real<PFN_vkWaitForFences>(device, "vkWaitForFences")(device, count, fences, all, timeout);
  const std::lock_guard lock(g_mutex);
  const bool busy = !g_under_way.empty();
  for (uint32_t i = 0; result == VK_SUCCESS && i < count; ++i) g_under_way.erase(fences[i]);
  if (busy && g_under_way.empty()) {
    const Clock::duration span = Clock::now() - g_busy_since;
    g_busy += span;
    g_longest_busy = std::max(g_longest_busy, span);
  }
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence) {
  return lost(device) ? VK_ERROR_DEVICE_LOST : real<PFN_vkGetFenceStatus>(device, "vkGetFenceStatus")(device, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkDevice device) {
  return lost(device) ? VK_ERROR_DEVICE_LOST : real<PFN_vkDeviceWaitIdle>(device, "vkDeviceWaitIdle")(device);
}

// ---- any call that fails ----

VulkanFault g_fault = kHostMemory;
size_t g_fault_left = 0, g_calls = 0, g_live = 0, g_early_fences = 0;
const char* g_failed = nullptr;

VkDevice device_of(VkDevice device) { return device; }
VkDevice device_of(VkQueue queue) {
  const std::lock_guard lock(g_mutex);
  return g_devices.at(queue);
}
template <class Other>
VkDevice device_of(Other) {
  return VK_NULL_HANDLE;
}

// Counts the call; true if it is the one that fails.
bool fails_now(unsigned possible, const char* name) {
  const std::lock_guard lock(g_mutex);
  if (!(possible & g_fault)) return false;
  ++g_calls;
  if (g_fault_left == 0 || --g_fault_left > 0) return false;
  g_failed = name;
  return true;
}

VkResult fault_of(VkDevice device) {
  if (g_fault == kHostMemory) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (g_fault == kDeviceMemory) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (g_fault == kTimeout) return VK_TIMEOUT;
  if (device) {
    real<PFN_vkDeviceWaitIdle>(device, "vkDeviceWaitIdle")(device);  // a lost device does nothing any more
    const std::lock_guard lock(g_mutex);
    if (g_fault == kLost) g_lost.insert(device);
  }
  return VK_ERROR_DEVICE_LOST;
}

// A function that returns a VkResult. next: what it does unless it fails.
template <class Tag, class Function>
struct Failing;
template <class Tag, class First, class... Rest>
struct Failing<Tag, VkResult (*)(First, Rest...)> {
  static inline VkResult (*next)(First, Rest...) = nullptr;
  static VkResult call(First first, Rest... rest) {
    if (fails_now(Tag::possible(), Tag::name())) return fault_of(device_of(first));
    const VkResult result = next(first, rest...);
    const std::lock_guard lock(g_mutex);
    if (Tag::creates() && result == VK_SUCCESS) ++g_live;
    return result;
  }
};

template <class Tag, class Function>
struct Destroying;
template <class Tag, class Handle>
struct Destroying<Tag, void (*)(VkDevice, Handle, const VkAllocationCallbacks*)> {
  static inline void (*next)(VkDevice, Handle, const VkAllocationCallbacks*) = nullptr;
  static void call(VkDevice device, Handle handle, const VkAllocationCallbacks* allocator) {
    {
      const std::lock_guard lock(g_mutex);
      if (handle) --g_live;
    }
    next(device, handle, allocator);
  }
};

// Fences of submissions.
std::set<VkFence> g_submitted;
VKAPI_ATTR VkResult VKAPI_CALL submit_with_fence(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                                 VkFence fence) {
  const Clock::time_point begin = Clock::now();
  const VkResult result = submit(queue, count, infos, fence);
  const std::lock_guard lock(g_mutex);
  if (result != VK_SUCCESS || !fence || g_hung.contains(g_devices.at(queue))) return result;
  g_submitted.insert(fence);
  if (g_under_way.empty()) g_busy_since = begin;
  g_under_way.insert(fence);
  g_most_under_way = std::max(g_most_under_way, g_under_way.size());
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL reset_fences(VkDevice device, uint32_t count, const VkFence* fences) {
  {
    const std::lock_guard lock(g_mutex);
    for (uint32_t i = 0; i < count; ++i) g_submitted.erase(fences[i]);
  }
  return real<PFN_vkResetFences>(device, "vkResetFences")(device, count, fences);
}
VKAPI_ATTR void VKAPI_CALL destroy_fence(VkDevice device, VkFence fence, const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    const bool submitted = g_submitted.erase(fence) > 0;
    g_under_way.erase(fence);
    if (submitted && real<PFN_vkGetFenceStatus>(device, "vkGetFenceStatus")(device, fence) == VK_NOT_READY)
      ++g_early_fences;
  }
  real<PFN_vkDestroyFence>(device, "vkDestroyFence")(device, fence, allocator);
}

template <class Function>
PFN_vkVoidFunction as_void(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

// NAME, which has the results of POSSIBLE and makes an object if CREATES; NAME, which destroys one. `function` becomes
// what goes before it.
#define WEFT_FAILING(NAME, POSSIBLE, CREATES)                                      \
  struct Tag##NAME {                                                               \
    static constexpr unsigned possible() { return POSSIBLE; }                      \
    static constexpr bool creates() { return CREATES; }                            \
    static constexpr const char* name() { return #NAME; }                          \
  };                                                                               \
  if (std::strcmp(name, #NAME) == 0 && function) {                                 \
    Failing<Tag##NAME, PFN_##NAME>::next = reinterpret_cast<PFN_##NAME>(function); \
    return as_void(Failing<Tag##NAME, PFN_##NAME>::call);                          \
  }
#define WEFT_DESTROYING(NAME)                                                         \
  struct Tag##NAME {};                                                                \
  if (std::strcmp(name, #NAME) == 0 && function) {                                    \
    Destroying<Tag##NAME, PFN_##NAME>::next = reinterpret_cast<PFN_##NAME>(function); \
    return as_void(Destroying<Tag##NAME, PFN_##NAME>::call);                          \
  }

PFN_vkVoidFunction failing(const char* name, PFN_vkVoidFunction function) {
  constexpr unsigned memory = kHostMemory | kDeviceMemory, any = memory | kLostOnce | kLost;
  WEFT_FAILING(vkCreateDevice, any, false)
  WEFT_FAILING(vkEnumerateInstanceExtensionProperties, memory, false)
  WEFT_FAILING(vkEnumerateDeviceExtensionProperties, memory, false)
  WEFT_FAILING(vkEnumeratePhysicalDevices, memory, false)
  WEFT_FAILING(vkCreateInstance, memory, false)
  WEFT_FAILING(vkAllocateCommandBuffers, memory, false)
  WEFT_FAILING(vkAllocateDescriptorSets, memory, false)
  WEFT_FAILING(vkAllocateMemory, memory, true)
  WEFT_FAILING(vkBeginCommandBuffer, memory, false)
  WEFT_FAILING(vkBindBufferMemory, memory, false)
  WEFT_FAILING(vkCreateBuffer, memory, true)
  WEFT_FAILING(vkCreateBufferView, memory, true)
  WEFT_FAILING(vkCreateCommandPool, memory, true)
  WEFT_FAILING(vkCreateComputePipelines, memory, true)
  WEFT_FAILING(vkCreateDescriptorPool, memory, true)
  WEFT_FAILING(vkCreateDescriptorSetLayout, memory, true)
  WEFT_FAILING(vkCreateFence, memory, true)
  WEFT_FAILING(vkCreatePipelineCache, memory, true)
  WEFT_FAILING(vkCreatePipelineLayout, memory, true)
  WEFT_FAILING(vkCreateQueryPool, memory, true)
  WEFT_FAILING(vkCreateShaderModule, memory, true)
  WEFT_FAILING(vkDeviceWaitIdle, any, false)
  WEFT_FAILING(vkEndCommandBuffer, memory, false)
  WEFT_FAILING(vkGetPipelineCacheData, memory, false)
  WEFT_FAILING(vkGetQueryPoolResults, any, false)
  WEFT_FAILING(vkMapMemory, memory, false)
  WEFT_FAILING(vkQueueSubmit, any, false)
  WEFT_FAILING(vkResetFences, kDeviceMemory, false)
  WEFT_FAILING(vkWaitForFences, any | kTimeout, false)
  WEFT_DESTROYING(vkDestroyBuffer)
  WEFT_DESTROYING(vkDestroyBufferView)
  WEFT_DESTROYING(vkDestroyCommandPool)
  WEFT_DESTROYING(vkDestroyDescriptorPool)
  WEFT_DESTROYING(vkDestroyDescriptorSetLayout)
  WEFT_DESTROYING(vkDestroyFence)
  WEFT_DESTROYING(vkDestroyPipeline)
  WEFT_DESTROYING(vkDestroyPipelineCache)
  WEFT_DESTROYING(vkDestroyPipelineLayout)
  WEFT_DESTROYING(vkDestroyQueryPool)
  WEFT_DESTROYING(vkDestroyShaderModule)
  WEFT_DESTROYING(vkFreeMemory)
  return function;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
  const std::map<std::string_view, PFN_vkVoidFunction> own = {
      {"vkAllocateMemory", as_void(allocate)},       {"vkFreeMemory", as_void(free_memory)},
      {"vkDestroyDevice", as_void(destroy_device)},  {"vkGetDeviceQueue", as_void(get_queue)},
      {"vkQueueSubmit", as_void(submit_with_fence)}, {"vkDestroyFence", as_void(destroy_fence)},
      {"vkResetFences", as_void(reset_fences)},      {"vkWaitForFences", as_void(wait_for_fences)},
      {"vkGetFenceStatus", as_void(fence_status)},   {"vkDeviceWaitIdle", as_void(wait_idle)}};
  const auto found = own.find(name);
  const auto next = failing(name, found != own.end() ? found->second : g_device_function(device, name));
  return faulty_function(name, pretended_function(name, next));
}

PFN_vkCreateInstance g_create_instance = nullptr;
PFN_vkDestroyInstance g_destroy_instance = nullptr;
std::atomic<bool> g_destroys_slowly = false;
std::atomic<size_t> g_instances_destroyed = 0, g_instances_made_meanwhile = 0;  // the first: at this moment

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                               VkInstance* instance) {
  if (g_instances_destroyed > 0) ++g_instances_made_meanwhile;
  return g_create_instance(info, allocator, instance);
}
VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  ++g_instances_destroyed;
  if (g_destroys_slowly) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  g_destroy_instance(instance, allocator);
  --g_instances_destroyed;
}

PFN_vkVoidFunction instance_function(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction function = real_instance_function()(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    g_device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(function);
    return as_void(device_function);
  }
  if (std::strcmp(name, "vkCreateDevice") == 0) {
    g_create = reinterpret_cast<PFN_vkCreateDevice>(function);
    return failing(name, as_void(create_device));
  }
  if (std::strcmp(name, "vkCreateInstance") == 0) {
    g_create_instance = reinterpret_cast<PFN_vkCreateInstance>(function);
    return failing(name, as_void(create_instance));
  }
  if (std::strcmp(name, "vkDestroyInstance") == 0 && function) {
    g_destroy_instance = reinterpret_cast<PFN_vkDestroyInstance>(function);
    return as_void(destroy_instance);
  }
  return failing(name, function);
}

}  // namespace

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  return real_instance_function() ? pretended_function(name, instance_function(instance, name)) : nullptr;
}

extern "C" void lose_device_at(size_t n) {
  const std::lock_guard lock(g_mutex);
  g_left = n;
  g_submissions = g_most_under_way = 0;
  g_busy = g_longest_busy = {};
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
extern "C" double busy_seconds() {
  const std::lock_guard lock(g_mutex);
  return std::chrono::duration<double>(g_busy).count();
}
extern "C" double longest_busy_seconds() {
  const std::lock_guard lock(g_mutex);
  return std::chrono::duration<double>(g_longest_busy).count();
}
extern "C" size_t most_under_way() {
  const std::lock_guard lock(g_mutex);
  return g_most_under_way;
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
extern "C" void fail_vulkan_at(VulkanFault fault, size_t n) {
  const std::lock_guard lock(g_mutex);
  g_fault = fault;
  g_fault_left = n;
  g_calls = g_early_fences = 0;
  g_failed = nullptr;
}
extern "C" size_t vulkan_calls() {
  const std::lock_guard lock(g_mutex);
  return g_calls;
}
extern "C" const char* failed_vulkan_call() {
  const std::lock_guard lock(g_mutex);
  return g_failed;
}
extern "C" size_t live_vulkan_objects() {
  const std::lock_guard lock(g_mutex);
  return g_live;
}
extern "C" void destroy_instances_slowly(bool slowly) { g_destroys_slowly = slowly; }
extern "C" size_t instances_made_meanwhile() { return g_instances_made_meanwhile; }
extern "C" size_t fences_destroyed_under_way() {
  const std::lock_guard lock(g_mutex);
  return g_early_fences;
}
