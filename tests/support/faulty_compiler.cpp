#include "support/faulty_compiler.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "support/losable_vulkan.h"
#include "support/pretended_devices.h"

namespace {

std::mutex g_mutex;                                       // guards all below
std::map<std::vector<uint32_t>, CompilerFault> g_faults;  // by identity
std::map<VkShaderModule, CompilerFault> g_modules;
std::set<VkPipeline> g_losing;
std::set<VkCommandBuffer> g_losing_commands;  // which have one of these pipelines
size_t g_pipelines = 0;

// Opcodes of SPIR-V, and the words of its header.
constexpr uint32_t kMul = 133, kAdd = 129, kFunction = 54, kVariable = 59, kDecorate = 71, kHeader = 5;

// The part of a module that its specialisation leaves as it is (gpu/specialise.h).
std::vector<uint32_t> identity(const std::vector<uint32_t>& words) {
  std::vector<uint32_t> same(words.begin(), words.begin() + kHeader);
  for (size_t at = kHeader; at < words.size(); at += words[at] >> 16) {
    const uint32_t opcode = words[at] & 0xffff;
    if (opcode == kFunction) break;
    if (opcode != kDecorate && opcode != kVariable) same.insert(same.end(), &words[at], &words[at] + (words[at] >> 16));
  }
  return same;
}

std::vector<uint32_t> broken(std::vector<uint32_t> words, CompilerFault fault) {
  if (fault != CompilerFault::adds) return words;
  for (size_t at = kHeader; at < words.size();) {
    const uint32_t opcode = words[at] & 0xffff, length = words[at] >> 16;
    if (opcode == kMul) words[at] = length << 16 | kAdd;
    at += length;
  }
  return words;
}

PFN_vkCreateShaderModule g_create_module = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkShaderModule* out) {
  const std::vector<uint32_t> words(info->pCode, info->pCode + info->codeSize / 4);
  std::unique_lock lock(g_mutex);
  const auto found = g_faults.find(identity(words));
  if (found == g_faults.end()) {
    lock.unlock();
    return g_create_module(device, info, allocator, out);
  }
  const std::vector<uint32_t> changed = broken(words, found->second);
  VkShaderModuleCreateInfo own = *info;
  own.pCode = changed.data();
  const VkResult result = g_create_module(device, &own, allocator, out);
  if (result == VK_SUCCESS) g_modules[*out] = found->second;
  return result;
}

PFN_vkDestroyShaderModule g_destroy_module = nullptr;
VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule module,
                                          const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    g_modules.erase(module);
  }
  g_destroy_module(device, module, allocator);
}

PFN_vkCreateComputePipelines g_create_pipelines = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* allocator, VkPipeline* out) {
  std::vector<uint32_t> losing;
  {
    const std::lock_guard lock(g_mutex);
    for (uint32_t i = 0; i < count; ++i) {
      const auto found = g_modules.find(infos[i].stage.module);
      if (found == g_modules.end()) continue;
      ++g_pipelines;
      if (found->second == CompilerFault::refuses) return VK_ERROR_UNKNOWN;
      if (found->second == CompilerFault::no_room) return VK_ERROR_OUT_OF_HOST_MEMORY;
      if (found->second == CompilerFault::loses) losing.push_back(i);
    }
  }
  const VkResult result = g_create_pipelines(device, cache, count, infos, allocator, out);
  const std::lock_guard lock(g_mutex);
  for (const uint32_t i : losing)
    if (result == VK_SUCCESS) g_losing.insert(out[i]);
  return result;
}

PFN_vkDestroyPipeline g_destroy_pipeline = nullptr;
VKAPI_ATTR void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline pipeline,
                                            const VkAllocationCallbacks* allocator) {
  {
    const std::lock_guard lock(g_mutex);
    g_losing.erase(pipeline);
  }
  g_destroy_pipeline(device, pipeline, allocator);
}

PFN_vkBeginCommandBuffer g_begin = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo* info) {
  {
    const std::lock_guard lock(g_mutex);
    g_losing_commands.erase(commands);
  }
  return g_begin(commands, info);
}

PFN_vkCmdBindPipeline g_bind = nullptr;
VKAPI_ATTR void VKAPI_CALL bind(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
  {
    const std::lock_guard lock(g_mutex);
    if (g_losing.contains(pipeline)) g_losing_commands.insert(commands);
  }
  g_bind(commands, point, pipeline);
}

PFN_vkQueueSubmit g_submit = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  {
    const std::lock_guard lock(g_mutex);
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t c = 0; c < infos[i].commandBufferCount; ++c)
        if (g_losing_commands.contains(infos[i].pCommandBuffers[c])) lose_device_at(1);
  }
  return g_submit(queue, count, infos, fence);
}

}  // namespace

void break_shader(const std::vector<uint32_t>& words, CompilerFault fault) {
  const std::lock_guard lock(g_mutex);
  g_faults[identity(words)] = fault;
}

void mend_shaders() {
  const std::lock_guard lock(g_mutex);
  g_faults.clear();
  g_pipelines = 0;
}

size_t broken_pipelines() {
  const std::lock_guard lock(g_mutex);
  return g_pipelines;
}

PFN_vkVoidFunction faulty_function(const char* name, PFN_vkVoidFunction next) {
  if (std::strcmp(name, "vkCreateShaderModule") == 0) return replaced_function(next, g_create_module, create_module);
  if (std::strcmp(name, "vkDestroyShaderModule") == 0) return replaced_function(next, g_destroy_module, destroy_module);
  if (std::strcmp(name, "vkCreateComputePipelines") == 0)
    return replaced_function(next, g_create_pipelines, create_pipelines);
  if (std::strcmp(name, "vkDestroyPipeline") == 0) return replaced_function(next, g_destroy_pipeline, destroy_pipeline);
  if (std::strcmp(name, "vkBeginCommandBuffer") == 0) return replaced_function(next, g_begin, begin);
  if (std::strcmp(name, "vkCmdBindPipeline") == 0) return replaced_function(next, g_bind, bind);
  if (std::strcmp(name, "vkQueueSubmit") == 0) return replaced_function(next, g_submit, submit);
  return next;
}
