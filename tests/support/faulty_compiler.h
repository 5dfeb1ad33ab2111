// A driver's compiler that refuses some shaders, or makes wrong code of them. Programs that link the losable Vulkan
// loader have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

enum class CompilerFault {
  refuses,  // vkCreateComputePipelines is VK_ERROR_UNKNOWN
  no_room,  // VK_ERROR_OUT_OF_HOST_MEMORY, as some drivers say where they cannot compile
  adds,     // products of floats are sums: results are wrong
  loses     // the device is lost when the pipeline is to run
};

// The fault of shaders with this SPIR-V, from now on. A second call with the same words replaces the first.
void break_shader(const std::vector<uint32_t>& words, CompilerFault fault);
void mend_shaders();  // all of them
// Pipelines of broken shaders that were asked for since mend_shaders().
size_t broken_pipelines();

// The function of that name with these faults in it, before `next`. For the loader.
PFN_vkVoidFunction faulty_function(const char* name, PFN_vkVoidFunction next);
