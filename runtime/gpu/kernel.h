// A compute pipeline and what its shader expects.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/vulkan.h"

namespace weft {

class Device;

struct KernelSpec {
  const char* name;  // the operation's: shader stem and profile row
  std::span<const uint32_t> spirv;
  uint32_t bindings;                // buffers 0 .. bindings - 1, all of them used
  uint32_t written;                 // bit i: binding i is written
  uint32_t push_bytes;              // size of the push constants
  std::vector<uint32_t> constants;  // specialisation constants 0, 1, ...
  uint32_t uniform = 0;             // bit i: binding i is a uniform buffer, not a storage buffer
  uint32_t texel = 0;               // bit i: binding i is a buffer of texels of four 32-bit integers
};

// Made by Device::kernel and owned by it.
class Kernel {
 public:
  Kernel(Device& device, const KernelSpec& spec, VkPipelineCache cache);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const char* name() const { return name_; }
  uint32_t bindings() const { return bindings_; }
  bool writes(uint32_t binding) const { return written_ >> binding & 1; }
  bool uniform(uint32_t binding) const { return uniform_ >> binding & 1; }
  bool texel(uint32_t binding) const { return texel_ >> binding & 1; }
  VkDescriptorType type(uint32_t binding) const;
  uint32_t push_bytes() const { return push_bytes_; }
  VkPipeline pipeline() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }

 private:
  void create(const KernelSpec& spec, VkPipelineCache cache);
  void destroy() noexcept;
  Device& device_;
  const char* name_;
  uint32_t bindings_, written_, uniform_, texel_, push_bytes_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace weft
