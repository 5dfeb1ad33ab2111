#include "gpu/kernel.h"

#include "gpu/device.h"

namespace weft {

Kernel::Kernel(Device& device, const KernelSpec& spec, VkPipelineCache cache)
    : device_(device),
      name_(spec.name),
      bindings_(spec.bindings),
      written_(spec.written),
      uniform_(spec.uniform),
      texel_(spec.texel),
      push_bytes_(spec.push_bytes) {
  try {
    create(spec, cache);
  } catch (...) {
    destroy();
    throw;
  }
}

void Kernel::create(const KernelSpec& spec, VkPipelineCache cache) {
  const VolkDeviceTable& vk = device_.vk();
  std::vector<VkDescriptorSetLayoutBinding> slots(spec.bindings);
  for (uint32_t i = 0; i < spec.bindings; ++i) slots[i] = {i, type(i), 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  const VkDescriptorSetLayoutCreateInfo set_info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, nullptr, 0,
                                                    spec.bindings, slots.data()};
  check(vk.vkCreateDescriptorSetLayout(device_.handle(), &set_info, nullptr, &set_layout_),
        "create a descriptor layout");

  const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, spec.push_bytes};
  const VkPipelineLayoutCreateInfo layout_info = {
      VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, nullptr, 0, 1, &set_layout_, spec.push_bytes ? 1u : 0u, &push};
  check(vk.vkCreatePipelineLayout(device_.handle(), &layout_info, nullptr, &layout_), "create a pipeline layout");

  const VkShaderModuleCreateInfo module_info = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                                spec.spirv.size_bytes(), spec.spirv.data()};
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk.vkCreateShaderModule(device_.handle(), &module_info, nullptr, &module), "create a shader module");
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < spec.constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo constants = {static_cast<uint32_t>(entries.size()), entries.data(),
                                          spec.constants.size() * 4, spec.constants.data()};
  const VkComputePipelineCreateInfo info = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                            nullptr,
                                            0,
                                            {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, nullptr, 0,
                                             VK_SHADER_STAGE_COMPUTE_BIT, module, "main", &constants},
                                            layout_,
                                            VK_NULL_HANDLE,
                                            0};
  const VkResult result = vk.vkCreateComputePipelines(device_.handle(), cache, 1, &info, nullptr, &pipeline_);
  vk.vkDestroyShaderModule(device_.handle(), module, nullptr);
  if (result != VK_SUCCESS) fail_vulkan(result, std::string("compile the shader ") + spec.name);
  device_.set_name(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline_), spec.name);
}

void Kernel::destroy() noexcept {
  const VolkDeviceTable& vk = device_.vk();
  if (pipeline_) vk.vkDestroyPipeline(device_.handle(), pipeline_, nullptr);
  if (layout_) vk.vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
  if (set_layout_) vk.vkDestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

Kernel::~Kernel() { destroy(); }

VkDescriptorType Kernel::type(uint32_t binding) const {
  if (texel(binding)) return VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
  return uniform(binding) ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

}  // namespace weft
