#include "gpu/kernel.h"

#include <system_error>

#include "base/signals.h"
#include "gpu/device.h"
#include "gpu/specialise.h"

namespace weft {

Kernel::Kernel(Device& device, const KernelSpec& spec, VkPipelineCache cache) : device_(device), spec_(spec) {
  try {
    create_layouts();
    start(cache);
  } catch (...) {
    destroy();
    throw;
  }
}

void Kernel::start(VkPipelineCache cache) {
  const auto task = [this, cache] {
    try {
      return compile(cache);
    } catch (...) {
      failed_ = true;
      throw;
    }
  };
  const BlockedSignals blocked;  // drivers may start threads, too
  std::shared_future<VkPipeline> pipeline;
  try {
    pipeline = std::async(std::launch::async, task);
  } catch (const std::system_error&) {  // the system has no thread left
    pipeline = std::async(std::launch::deferred, task);
    pipeline.wait();
  }
  const std::lock_guard lock(mutex_);
  pipeline_ = std::move(pipeline);
}

void Kernel::retry(VkPipelineCache cache) {
  if (!failed_.exchange(false)) return;
  try {
    start(cache);
  } catch (...) {
    failed_ = true;
    throw;
  }
}

void Kernel::create_layouts() {
  const VolkDeviceTable& vk = device_.vk();
  const uint32_t bindings = shader().bindings, push_bytes = shader().push_bytes;
  std::vector<VkDescriptorSetLayoutBinding> infos(bindings);
  for (uint32_t i = 0; i < bindings; ++i) infos[i] = {i, type(i), 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  const VkDescriptorSetLayoutCreateInfo set_info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, nullptr, 0,
                                                    bindings, infos.data()};
  check(vk.vkCreateDescriptorSetLayout(device_.handle(), &set_info, nullptr, &set_layout_),
        "create a descriptor layout");

  const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  const VkPipelineLayoutCreateInfo layout_info = {
      VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, nullptr, 0, 1, &set_layout_, push_bytes ? 1u : 0u, &push};
  check(vk.vkCreatePipelineLayout(device_.handle(), &layout_info, nullptr, &layout_), "create a pipeline layout");
}

VkPipeline Kernel::compile(VkPipelineCache cache) const {
  const Device::Compiling turn(device_);
  const VolkDeviceTable& vk = device_.vk();
  // All allocations come first: if one fails, no Vulkan object leaks.
  const std::string name = label();
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < spec_.constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const std::vector<uint32_t> spirv = specialise(unpack_spirv(shader().code), spec_.constants);
  const VkShaderModuleCreateInfo module_info = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                                spirv.size() * 4, spirv.data()};
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk.vkCreateShaderModule(device_.handle(), &module_info, nullptr, &module), "create a shader module");
  const VkSpecializationInfo constants = {static_cast<uint32_t>(entries.size()), entries.data(),
                                          spec_.constants.size() * 4, spec_.constants.data()};
  const VkPipelineCreateFlags flags = device_.plan().statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0;
  const VkPipelineShaderStageCreateFlags stage_flags =
      shader().full_subgroups ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0;
  const VkComputePipelineCreateInfo info = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                            nullptr,
                                            flags,
                                            {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, nullptr, stage_flags,
                                             VK_SHADER_STAGE_COMPUTE_BIT, module, "main", &constants},
                                            layout_,
                                            VK_NULL_HANDLE,
                                            0};
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = vk.vkCreateComputePipelines(device_.handle(), cache, 1, &info, nullptr, &pipeline);
  vk.vkDestroyShaderModule(device_.handle(), module, nullptr);
  if (result != VK_SUCCESS) fail_vulkan(result, "compile the shader " + name);
  device_.set_name(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline), name);
  return pipeline;
}

void Kernel::destroy() noexcept {
  if (device_.given_up()) return;
  const VolkDeviceTable& vk = device_.vk();
  if (layout_) vk.vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
  if (set_layout_) vk.vkDestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

Kernel::~Kernel() {
  try {
    const VkPipeline pipeline = pipeline_.get();
    if (!device_.given_up()) device_.vk().vkDestroyPipeline(device_.handle(), pipeline, nullptr);
  } catch (const std::exception&) {  // it was not compiled
  }
  destroy();
}

static double number(const VkPipelineExecutableStatisticKHR& one) {
  switch (one.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return one.value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<double>(one.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
      return one.value.f64;
    default:
      return static_cast<double>(one.value.u64);
  }
}

std::map<std::string, double> Kernel::statistics() const {
  std::map<std::string, double> values;
  if (!device_.plan().statistics) return values;
  const VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, nullptr, pipeline()};
  uint32_t programs = 0;
  check(device_.vk().vkGetPipelineExecutablePropertiesKHR(device_.handle(), &info, &programs, nullptr),
        "count a pipeline's programs");
  const auto get = device_.vk().vkGetPipelineExecutableStatisticsKHR;
  for (uint32_t program = 0; program < programs; ++program) {
    const VkPipelineExecutableInfoKHR which = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, nullptr, pipeline(),
                                               program};
    uint32_t count = 0;
    check(get(device_.handle(), &which, &count, nullptr), "count a pipeline's statistics");
    std::vector<VkPipelineExecutableStatisticKHR> list(count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
    check(get(device_.handle(), &which, &count, list.data()), "read a pipeline's statistics");
    for (const VkPipelineExecutableStatisticKHR& one : list) values[one.name] += number(one);
  }
  return values;
}

std::string label(const KernelSpec& spec) {
  std::string text = spec.shader.name;
  if (*spec.shader.variant) text += std::string(" ") + spec.shader.variant;
  for (const uint32_t value : spec.constants) text += " " + std::to_string(value);
  return text;
}

VkDescriptorType Kernel::type(uint32_t binding) const {
  const bool texel = shader().texel >> binding & 1;
  return texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

}  // namespace weft
