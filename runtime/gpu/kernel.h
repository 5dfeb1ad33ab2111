// A compute pipeline and what its shader expects.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/vulkan.h"

namespace weft {

class Device;

struct KernelSpec {
  const char* name;                 // the operation's: shader stem and profile row
  std::span<const uint32_t> spirv;  // lives as long as the program
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

  const KernelSpec& spec() const { return spec_; }
  const char* name() const { return spec_.name; }
  uint32_t bindings() const { return spec_.bindings; }
  bool writes(uint32_t binding) const { return spec_.written >> binding & 1; }
  bool uniform(uint32_t binding) const { return spec_.uniform >> binding & 1; }
  bool texel(uint32_t binding) const { return spec_.texel >> binding & 1; }
  VkDescriptorType type(uint32_t binding) const;
  uint32_t push_bytes() const { return spec_.push_bytes; }
  VkPipeline pipeline() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }

  // What the driver's compiler says of the pipeline, in its words ("VGPRs", "Spilled VGPRs"); only where the plan asks.
  std::map<std::string, uint64_t> statistics() const;

 private:
  void create(VkPipelineCache cache);
  void destroy() noexcept;
  Device& device_;
  const KernelSpec spec_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace weft
