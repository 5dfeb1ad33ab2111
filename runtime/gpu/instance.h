// The process's one VkInstance, and the physical devices behind it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/caps.h"
#include "gpu/vulkan.h"

namespace weft {

class Instance {
 public:
  // The instance shared by every Device; made at the first call, destroyed when the last user lets go. Throws
  // Error(no_device) if there is no Vulkan loader. WEFT_VALIDATION=1 in the environment turns on the validation layer
  // with synchronization validation, and throws if the layer is not installed.
  static std::shared_ptr<Instance> get();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  struct Physical {
    VkPhysicalDevice handle;
    Caps caps;  // with WEFT_DISABLE applied
  };
  const std::vector<Physical>& devices() const { return devices_; }
  VkInstance handle() const { return handle_; }
  // True if objects are named, for debuggers and validation messages: with WEFT_VALIDATION=1 or WEFT_LABELS=1.
  bool debug_utils() const { return debug_utils_; }
  // True if dispatches have labels, for debuggers: with WEFT_LABELS=1. Labels are off by default because the validation
  // layer of Vulkan 1.3.239 does not guard its list of labels against threads that destroy their command pools
  // (KhronosGroup/Vulkan-ValidationLayers issue 5172).
  bool debug_labels() const { return debug_labels_; }

  // Warnings and errors of the validation layer since the process started, the first few thousand, oldest first. Tests
  // want none.
  static std::vector<std::string> validation_messages();

 private:
  Instance() = default;
  void create();
  void list_devices();
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool debug_utils_ = false, debug_labels_ = false;
  std::vector<Physical> devices_;
};

std::vector<VkExtensionProperties> device_extensions(VkPhysicalDevice device);

}  // namespace weft
