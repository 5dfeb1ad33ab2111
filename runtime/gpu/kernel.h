// A compute pipeline and what its shader expects.
#pragma once

#include <cstdint>
#include <future>
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
  const char* variant = "";         // where an operation has several shaders of the same bindings
};

// Made by Device::kernel and owned by it. The driver compiles it on a thread of its own while the maker goes on.
class Kernel {
 public:
  Kernel(Device& device, const KernelSpec& spec, VkPipelineCache cache);
  ~Kernel();  // waits for the compiler
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
  // Waits for the compiler; throws what it reports.
  VkPipeline pipeline() const { return pipeline_.get(); }
  void wait() const { pipeline_.wait(); }
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }

  // What the driver's compiler says of the pipeline, in its words ("VGPRs", "Spilled VGPRs"); only where the plan asks.
  std::map<std::string, uint64_t> statistics() const;

 private:
  void create_layouts();
  VkPipeline compile(VkPipelineCache cache) const;
  void destroy() noexcept;
  Device& device_;
  const KernelSpec spec_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::shared_future<VkPipeline> pipeline_;
};

}  // namespace weft
