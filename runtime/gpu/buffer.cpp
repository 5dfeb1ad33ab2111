#include "gpu/buffer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/device.h"

namespace weft {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
// Types that need a feature Weft does not switch on.
constexpr VkMemoryPropertyFlags kForbidden = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD |
                                             VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD |
                                             VK_MEMORY_PROPERTY_PROTECTED_BIT;
constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

// Property sets for an intent, best first. The last of each is guaranteed by the specification.
std::vector<VkMemoryPropertyFlags> wishes(Memory memory) {
  switch (memory) {
    case Memory::device:
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

Buffer::Buffer(std::shared_ptr<Device> device, std::string name, uint64_t bytes, Memory memory)
    : device_(std::move(device)), name_(std::move(name)), bytes_(bytes) {
  try {
    allocate(memory);
  } catch (...) {
    Buffer partial;
    swap(partial);  // its destructor frees what there is
    throw;
  }
}

void Buffer::allocate(Memory memory) {
  const VolkDeviceTable& vk = device_->vk();
  const VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                   nullptr,
                                   0,
                                   bytes_,
                                   VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                                       VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                       VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                                   VK_SHARING_MODE_EXCLUSIVE,
                                   0,
                                   nullptr};
  const auto refuse = [&](VkResult result) {
    if (result == VK_SUCCESS) return;
    if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY &&
        result != VK_ERROR_TOO_MANY_OBJECTS)
      fail_vulkan(result, "allocate the buffer " + name_);
    std::string sentence = "the device has no room for " + std::to_string(bytes_) + " bytes";
    if (const uint64_t left = device_->memory_left()) sentence += ", " + std::to_string(left) + " are left";
    throw Error(Code::out_of_memory, sentence, "buffer " + name_, "use a smaller model, type or context");
  };
  if (device_->caps().max_allocation && bytes_ > device_->caps().max_allocation)
    throw Error(Code::out_of_memory,
                "it needs " + std::to_string(bytes_) + " bytes in one piece, the device's maxMemoryAllocationSize is " +
                    std::to_string(device_->caps().max_allocation),
                "buffer " + name_, "use a smaller model, type or context");
  refuse(vk.vkCreateBuffer(device_->handle(), &info, nullptr, &handle_));
  device_->set_name(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(handle_), name_);

  VkMemoryRequirements needs = {};
  vk.vkGetBufferMemoryRequirements(device_->handle(), handle_, &needs);
  intent_ = memory;
  device_->take_memory(memory, needs.size, name_);
  taken_ = needs.size;
  VkPhysicalDeviceMemoryProperties types = {};
  vkGetPhysicalDeviceMemoryProperties(device_->physical(), &types);
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (const VkMemoryPropertyFlags wish : wishes(memory)) {
    for (uint32_t type = 0; type < types.memoryTypeCount && !memory_; ++type) {
      if (!(needs.memoryTypeBits & (1u << type)) || (types.memoryTypes[type].propertyFlags & wish) != wish ||
          (types.memoryTypes[type].propertyFlags & kForbidden))
        continue;
      const VkMemoryAllocateInfo allocation = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
      result = vk.vkAllocateMemory(device_->handle(), &allocation, nullptr, &memory_);
    }
  }
  if (!memory_) refuse(result);
  check(vk.vkBindBufferMemory(device_->handle(), handle_, memory_, 0), "bind a buffer's memory");
  if (memory != Memory::device)
    check(vk.vkMapMemory(device_->handle(), memory_, 0, VK_WHOLE_SIZE, 0, &data_), "map a buffer's memory");
}

Buffer::~Buffer() {
  if (!device_) return;
  const VolkDeviceTable& vk = device_->vk();
  if (handle_ && !device_->given_up()) vk.vkDestroyBuffer(device_->handle(), handle_, nullptr);
  if (memory_ && !device_->given_up()) vk.vkFreeMemory(device_->handle(), memory_, nullptr);  // unmaps too
  if (taken_) device_->return_memory(intent_, taken_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(name_, other.name_);
  std::swap(bytes_, other.bytes_);
  std::swap(taken_, other.taken_);
  std::swap(intent_, other.intent_);
  std::swap(handle_, other.handle_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
}

}  // namespace weft
