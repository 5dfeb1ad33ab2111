#include "gpu/buffer.h"

#include <utility>

#include "base/process_limits.h"
#include "gpu/device.h"
#include "gpu/memory_map.h"

namespace weft {

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
  const VkBufferCreateInfo info = buffer_info(bytes_);
  const auto refuse = [&](VkResult result) {
    if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY &&
        result != VK_ERROR_TOO_MANY_OBJECTS)
      fail_vulkan(result, "allocate the buffer " + name_);
    if (taken_) device_->return_memory(intent_, std::exchange(taken_, 0));  // it was not allocated
    const std::string limits = limits_hint();                               // a driver may take the host's memory
    throw Error(
        Code::out_of_memory,
        "the device has no room for " + std::to_string(bytes_) + " bytes: of its " +
            std::to_string(device_->caps().memory) + " bytes " + std::to_string(device_->memory_left()) + " are free",
        "buffer " + name_,
        !limits.empty() ? limits
                        : "use a smaller model, type or context, or a memory budget, with which layers stay in the "
                          "host's memory");
  };
  if (device_->caps().max_allocation && bytes_ > device_->caps().max_allocation)
    throw Error(Code::out_of_memory,
                "it needs " + std::to_string(bytes_) + " bytes in one piece, the device's maxMemoryAllocationSize is " +
                    std::to_string(device_->caps().max_allocation),
                "buffer " + name_, "use a smaller model, type or context");
  if (const VkResult made = vk.vkCreateBuffer(device_->handle(), &info, nullptr, &handle_); made != VK_SUCCESS)
    refuse(made);
  device_->set_name(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(handle_), name_);

  VkMemoryRequirements needs = {};
  vk.vkGetBufferMemoryRequirements(device_->handle(), handle_, &needs);
  intent_ = memory;
  device_->take_memory(memory, needs.size, name_);
  taken_ = needs.size;
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  const MemoryMap map(device_->physical(), device_->caps().kind);
  for (const uint32_t type : map.types(memory, needs.memoryTypeBits)) {
    // A driver may allocate more than its budget, and move it to the host's memory without a word.
    if (memory == Memory::device && map.free_bytes(type, device_->caps().memory_budget) < needs.size) continue;
    const VkMemoryAllocateInfo allocation = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
    result = vk.vkAllocateMemory(device_->handle(), &allocation, nullptr, &memory_);
    if (result != VK_SUCCESS) continue;
    if (!map.is_local(type) && memory != Memory::readback) {  // it counts as the host's
      device_->return_memory(memory, taken_);
      intent_ = Memory::upload;
      device_->take_memory(intent_, taken_, name_);
    }
    break;
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
