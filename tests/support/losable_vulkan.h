// A Vulkan loader in front of the real one, whose devices can be lost.
#pragma once

#include <cstddef>

// WEFT_LOSE_DEVICE_AT in the environment calls lose_device_at() at the start of a program.

// The n-th submission from now on (from 1) loses its device for good: what was submitted before is waited for, and then
// every submission and wait of that device is VK_ERROR_DEVICE_LOST. 0: none.
extern "C" void lose_device_at(size_t n);
// The n-th submission from now on never ends; nor do later ones of its device. 0: none.
extern "C" void hang_device_at(size_t n);
// How often a device that hangs, or memory of it, was destroyed or freed.
extern "C" size_t destroyed_under_way();
// Number of submissions since lose_device_at(); the lost ones count.
extern "C" size_t submissions();
// Seconds since lose_device_at() in which a submission was under way: from its call until its fence was waited for.
extern "C" double busy_seconds();
// The longest of those times without a gap.
extern "C" double longest_busy_seconds();
// The most submissions that were under way at once since then.
extern "C" size_t most_under_way();
// Makes vkCreateDevice fail while `refuse` is set.
extern "C" void refuse_devices(bool refuse);
// Makes vkAllocateMemory fail while `refuse` is set.
extern "C" void refuse_memory(bool refuse);
// Devices that were created; those of them that were not destroyed.
extern "C" size_t created_devices();
extern "C" size_t open_devices();

// ---- any call that fails ----

enum VulkanFault {
  kHostMemory = 1,    // VK_ERROR_OUT_OF_HOST_MEMORY
  kDeviceMemory = 2,  // VK_ERROR_OUT_OF_DEVICE_MEMORY
  kLostOnce = 4,      // VK_ERROR_DEVICE_LOST, and later calls succeed
  kLost = 8,          // VK_ERROR_DEVICE_LOST, as lose_device_at()
  kTimeout = 16       // VK_TIMEOUT
};
// The n-th call from now on (from 1), of those that may have this result, returns it and does nothing. 0: none.
extern "C" void fail_vulkan_at(VulkanFault fault, size_t n);
// Calls since fail_vulkan_at() that may have its result.
extern "C" size_t vulkan_calls();
// The function that failed; NULL: none yet.
extern "C" const char* failed_vulkan_call();
// Vulkan objects that were created and not destroyed.
extern "C" size_t live_vulkan_objects();
// Makes vkDestroyInstance take ten milliseconds while `slowly` is set.
extern "C" void destroy_instances_slowly(bool slowly);
// How often an instance was made while another was being destroyed.
extern "C" size_t instances_made_meanwhile();
// How often a fence was destroyed before its submission had ended.
extern "C" size_t fences_destroyed_under_way();
