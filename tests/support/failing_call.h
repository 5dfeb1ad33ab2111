// Vulkan calls that fail.
#pragma once

#include <atomic>

#include "gpu/device.h"

namespace weft::test {

// While it lives, the n-th call (from 1) of a function of one device returns a given result and does nothing. Calls
// are counted on all threads. One at a time for each function: FailCall<&VolkDeviceTable::vkQueueSubmit>(device, 1,
// ...).
template <auto member>
class FailCall;

template <class... Arguments, VkResult (*VolkDeviceTable::*member)(Arguments...)>
class FailCall<member> {
 public:
  FailCall(const Device& device, size_t n, VkResult result)
      : function_(const_cast<VolkDeviceTable&>(device.vk()).*member) {
    s_real = function_;
    s_left = n;
    s_result = result;
    s_calls = 0;
    function_ = call;
  }
  ~FailCall() { function_ = s_real; }
  FailCall(const FailCall&) = delete;
  FailCall& operator=(const FailCall&) = delete;

  size_t calls() const { return s_calls; }
  bool failed() const { return s_left == 0; }

 private:
  using Function = VkResult (*)(Arguments...);
  static VkResult call(Arguments... arguments) {
    ++s_calls;
    size_t left = s_left;
    while (left > 0 && !s_left.compare_exchange_weak(left, left - 1)) {
    }
    return left == 1 ? s_result : s_real(arguments...);
  }

  Function& function_;
  static inline Function s_real = nullptr;
  static inline std::atomic<size_t> s_left = 0, s_calls = 0;
  static inline VkResult s_result = VK_SUCCESS;
};

}  // namespace weft::test
