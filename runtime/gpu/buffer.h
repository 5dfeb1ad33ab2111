// Device memory by intent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/vulkan.h"

namespace weft {

class Device;

enum class Memory {
  device,    // weights, caches, activations: the fastest the device has; the CPU reaches it through copies only
  shared,    // small state both sides read and write: mapped, coherent, on the device where possible
  upload,    // mapped, coherent; the CPU writes, the device copies from it
  readback,  // mapped, coherent, cached where possible; the device writes, the CPU reads
};

// Bytes allocated of a device's memory, and of the host's for the device to reach.
struct MemoryUse {
  uint64_t device = 0;       // Memory::device and shared
  uint64_t most_device = 0;  // at any time
  uint64_t host = 0;         // Memory::upload and readback
};

// Owns a VkBuffer and its memory. Movable. Throws Error(out_of_memory) with the name and size, also where the plan's
// memory budget has no room.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Device> device, std::string name, uint64_t bytes, Memory memory);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  uint64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // The mapped bytes; nullptr for Memory::device.
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  VkBuffer handle() const { return handle_; }
  explicit operator bool() const { return handle_ != VK_NULL_HANDLE; }

 private:
  void swap(Buffer& other) noexcept;
  void allocate(Memory memory);
  std::shared_ptr<Device> device_;
  std::string name_;
  uint64_t bytes_ = 0;
  uint64_t taken_ = 0;  // of the device's accounts
  Memory intent_ = Memory::device;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* data_ = nullptr;
};

// A part of a buffer as a kernel sees it. The offset is a multiple of 256 (every device's alignment divides that).
struct View {
  const Buffer* buffer = nullptr;
  uint64_t offset = 0, bytes = 0;

  View() = default;
  View(const Buffer& whole) : buffer(&whole), bytes(whole.bytes()) {}
  View(const Buffer& owner, uint64_t first, uint64_t count) : buffer(&owner), offset(first), bytes(count) {}
  View part(uint64_t first, uint64_t count) const { return View(*buffer, offset + first, count); }
};

inline uint64_t align_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }
inline constexpr uint64_t kViewAlignment = 256;

}  // namespace weft
