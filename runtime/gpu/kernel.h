// A compute pipeline: a shader with its specialisation constants.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/shader.h"
#include "gpu/vulkan.h"

namespace weft {

class Device;

struct KernelSpec {
  Shader shader;
  std::vector<uint32_t> constants = {};  // specialisation constants 0, 1, ...
};

std::string label(const KernelSpec& spec);  // name, variant and constants: "norm texel 0 1"

// Made by Device::kernel and owned by it. The driver compiles it on a thread of its own while the maker goes on.
class Kernel {
 public:
  Kernel(Device& device, const KernelSpec& spec, VkPipelineCache cache);
  ~Kernel();  // waits for the compiler
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const KernelSpec& spec() const { return spec_; }
  const Shader& shader() const { return spec_.shader; }
  const char* name() const { return spec_.shader.name; }
  std::string label() const { return weft::label(spec_); }
  VkDescriptorType type(uint32_t binding) const;
  // Waits for the compiler; throws what it reports.
  VkPipeline pipeline() const { return compiled().get(); }
  void wait() const { compiled().wait(); }
  // Compiles it again if the compiler has failed: it may have been short of memory.
  void retry(VkPipelineCache cache);
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }

  // Statistics of the pipeline under the names that the driver's compiler gives them ("VGPRs", "Spilled VGPRs"); only
  // if the plan asks for them. If a pipeline consists of several programs, their sums.
  std::map<std::string, double> statistics() const;

 private:
  void create_layouts();
  void start(VkPipelineCache cache);
  VkPipeline compile(VkPipelineCache cache) const;
  std::shared_future<VkPipeline> compiled() const {
    const std::lock_guard lock(mutex_);
    return pipeline_;
  }
  void destroy() noexcept;
  Device& device_;
  const KernelSpec spec_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  mutable std::mutex mutex_;                 // guards pipeline_
  std::shared_future<VkPipeline> pipeline_;  // of the last attempt to compile
  std::atomic<bool> failed_ = false;         // that attempt failed
};

}  // namespace weft
