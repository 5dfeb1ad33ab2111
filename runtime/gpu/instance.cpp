#include "gpu/instance.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/process_limits.h"
#include "base/signals.h"
#include "gpu/cooperative_matrix.h"
#include "gpu/memory_map.h"

namespace weft {
namespace {

std::recursive_mutex g_mutex;  // guards the three below; held by get() where a shared_ptr that finds no memory deletes
std::weak_ptr<Instance> g_instance;
pid_t g_process = 0;  // that made it
bool g_loader_ready = false;

constexpr size_t kMostMessages = 4096;
std::mutex g_messages_mutex;
std::vector<std::string> g_messages;

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  if (severity < VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT) return VK_FALSE;
  // The loader warns through the same channel about manifests of drivers that are not ours.
  if (data->pMessageIdName && std::strcmp(data->pMessageIdName, "Loader Message") == 0) return VK_FALSE;
  const std::lock_guard lock(g_messages_mutex);
  if (g_messages.size() < kMostMessages) g_messages.push_back(data->pMessage);
  return VK_FALSE;
}

bool flag(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::strcmp(value, "0") != 0;
}

bool has_extension(const std::vector<VkExtensionProperties>& list, const char* name) {
  for (const VkExtensionProperties& extension : list)
    if (std::strcmp(extension.extensionName, name) == 0) return true;
  return false;
}

bool has_layer(const char* name) {
  for (const VkLayerProperties& layer :
       enumerate<VkLayerProperties>("list instance layers", vkEnumerateInstanceLayerProperties))
    if (std::strcmp(layer.layerName, name) == 0) return true;
  return false;
}

DeviceKind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return DeviceKind::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceKind::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return DeviceKind::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return DeviceKind::cpu;
    default:
      return DeviceKind::other;
  }
}

void read_memory(VkPhysicalDevice device, Caps& caps) {
  VkPhysicalDeviceMemoryProperties memory = {};
  vkGetPhysicalDeviceMemoryProperties(device, &memory);
  caps.memory = MemoryMap(device, caps.kind).bytes();
  caps.unified_memory = true;
  for (uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap) {
    if (!(memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    bool mappable = false;
    for (uint32_t type = 0; type < memory.memoryTypeCount; ++type)
      mappable |= memory.memoryTypes[type].heapIndex == heap &&
                  (memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    caps.unified_memory &= mappable;
  }
}

void read_limits(const VkPhysicalDeviceLimits& limits, Caps& caps) {
  caps.max_range = limits.maxStorageBufferRange;
  caps.max_texels = limits.maxTexelBufferElements;
  caps.max_bindings = limits.maxPerStageDescriptorStorageBuffers;
  caps.offset_alignment =
      static_cast<uint32_t>(std::max(limits.minStorageBufferOffsetAlignment, limits.minTexelBufferOffsetAlignment));
  caps.max_shared = limits.maxComputeSharedMemorySize;
  caps.max_threads = std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  caps.max_allocations = limits.maxMemoryAllocationCount;
  caps.max_groups = limits.maxComputeWorkGroupCount[0];
  caps.timestamps = limits.timestampComputeAndGraphics && limits.timestampPeriod > 0;
  caps.timestamp_period = limits.timestampPeriod;
}

// The side of the square matrices of halves that subgroups multiply, with sums of floats; 0: there are none, or Weft
// was built by a glslang that is too old for their kernel.
uint32_t read_matrix_side(VkInstance instance, VkPhysicalDevice device) {
#ifdef WEFT_WITHOUT_MATRICES
  return 0;
#endif
  const auto get = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  if (!get) return 0;
  const auto list = enumerate<VkCooperativeMatrixPropertiesKHR>(
      "list the cooperative matrices",
      [&](uint32_t* count, VkCooperativeMatrixPropertiesKHR* entries) { return get(device, count, entries); },
      {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR});
  uint32_t side = 0;
  for (const VkCooperativeMatrixPropertiesKHR& one : list)
    if (one.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && one.BType == one.AType &&
        one.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && one.ResultType == one.CType &&
        one.scope == VK_SCOPE_SUBGROUP_KHR && one.NSize == one.MSize && one.KSize == one.MSize &&
        (one.MSize == 8 || one.MSize == 16))
      side = std::max(side, one.MSize);
  return side;
}

// Reads all fields of Caps. A device of Vulkan 1.0 is listed with the fields that 1.0 has; the plan then refuses it.
Caps read_caps(VkInstance instance, VkPhysicalDevice device) {
  Caps caps;
  VkPhysicalDeviceProperties basic = {};
  vkGetPhysicalDeviceProperties(device, &basic);
  caps.name = basic.deviceName;
  caps.kind = kind_of(basic.deviceType);
  caps.vendor_id = basic.vendorID;
  caps.device_id = basic.deviceID;
  caps.driver_id = likely_driver(basic.vendorID);
  caps.driver_version = basic.driverVersion;
  caps.api_version = basic.apiVersion;
  std::memcpy(caps.cache_uuid, basic.pipelineCacheUUID, sizeof caps.cache_uuid);
  read_limits(basic.limits, caps);
  read_memory(device, caps);
  if (basic.apiVersion < VK_API_VERSION_1_1) return caps;

  const std::vector<VkExtensionProperties> extensions = device_extensions(device);
  const bool v12 = basic.apiVersion >= VK_API_VERSION_1_2, v13 = basic.apiVersion >= VK_API_VERSION_1_3;
  const bool has_driver = v12 || has_extension(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
  const bool has_fp16 = v12 || has_extension(extensions, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
  const bool has_dot = v13 || has_extension(extensions, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  const bool has_matrices = (v12 || has_extension(extensions, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME)) &&
                            has_extension(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  const bool has_sizes = v13 || has_extension(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);

  VkPhysicalDeviceDriverProperties driver = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties maintenance = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, &maintenance};
  VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroup};
  if (has_driver) driver.pNext = properties.pNext, properties.pNext = &driver;
  if (has_dot) dot.pNext = properties.pNext, properties.pNext = &dot;
  vkGetPhysicalDeviceProperties2(device, &properties);
  caps.max_allocation = maintenance.maxMemoryAllocationSize;
  caps.subgroup_size = subgroup.subgroupSize;
  const bool in_compute = subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
  caps.subgroup = in_compute && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
  constexpr VkSubgroupFeatureFlags shuffle = VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT;
  caps.shuffle = in_compute && (subgroup.supportedOperations & shuffle) == shuffle;
  caps.int8_dot_fast = has_dot && dot.integerDotProduct4x8BitPackedSignedAccelerated;
  if (has_driver) {
    caps.driver_id = driver.driverID;
    caps.driver_name = driver.driverName;
    caps.driver_info = driver.driverInfo;
  }
  caps.memory_budget = has_extension(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);

  VkPhysicalDeviceShaderFloat16Int8Features fp16 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures model = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, &model};
  VkPhysicalDeviceFeatures2 features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  if (has_matrices) model.pNext = features.pNext, features.pNext = &matrices;
  if (has_fp16) fp16.pNext = features.pNext, features.pNext = &fp16;
  if (has_dot) dots.pNext = features.pNext, features.pNext = &dots;
  if (has_sizes) sizes.pNext = features.pNext, features.pNext = &sizes;
  vkGetPhysicalDeviceFeatures2(device, &features);
  caps.fp16 = has_fp16 && fp16.shaderFloat16;
  caps.int8_dot = has_dot && dots.shaderIntegerDotProduct;
  if (has_matrices && matrices.cooperativeMatrix && model.vulkanMemoryModel && in_compute)
    caps.matrix_side = read_matrix_side(instance, device);
  caps.matrices = caps.matrix_side > 0;
  caps.full_subgroups = has_sizes && sizes.computeFullSubgroups && in_compute &&
                        (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT);
  return caps;
}

}  // namespace

std::vector<VkExtensionProperties> device_extensions(VkPhysicalDevice device) {
  return enumerate<VkExtensionProperties>("list device extensions", [&](uint32_t* count, VkExtensionProperties* list) {
    return vkEnumerateDeviceExtensionProperties(device, nullptr, count, list);
  });
}

std::shared_ptr<Instance> Instance::get() {
  const std::lock_guard lock(g_mutex);
  if (auto existing = g_instance.lock()) {
    if (g_process == ::getpid()) return existing;
    throw Error(Code::no_device, "this process was forked from one that uses Vulkan", "Vulkan",
                "use Weft after the fork alone, or start the process anew");
  }
  std::unique_ptr<Instance> made(new Instance());
  made->create();
  // The last user's release is no time for another thread to make a new one: the loader's functions are the process's.
  std::shared_ptr<Instance> shared(made.release(), [](Instance* instance) {
    const std::lock_guard destroying(g_mutex);
    delete instance;
  });
  g_instance = shared;
  g_process = ::getpid();
  return shared;
}

std::vector<std::string> Instance::validation_messages() {
  const std::lock_guard lock(g_messages_mutex);
  return g_messages;
}

void Instance::create() {
  const BlockedSignals blocked;  // of the threads that the loader, layers and drivers start
  if (!g_loader_ready && volkInitialize() != VK_SUCCESS) {
    const std::string limits = limits_hint();
    if (!limits.empty()) throw Error(Code::no_device, "the Vulkan loader cannot be loaded", "libvulkan.so.1", limits);
    throw Error(Code::no_device, "this machine has no Vulkan loader", "libvulkan.so.1",
                "install libvulkan1 and your GPU's driver; without a GPU, mesa-vulkan-drivers has a software one");
  }
  g_loader_ready = true;
  if (volkGetInstanceVersion() < VK_API_VERSION_1_1)
    throw Error(Code::no_device, "the Vulkan loader knows Vulkan 1.0 only, Weft needs 1.1", "libvulkan.so.1",
                "update libvulkan1");

  constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";
  const bool validation = flag("WEFT_VALIDATION");
  if (validation && !has_layer(kLayer))
    throw Error(Code::not_found, "WEFT_VALIDATION is set, but the Vulkan validation layer is not installed", kLayer,
                "install vulkan-validationlayers");

  const VkApplicationInfo application = {
      VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, nullptr, 0, "Weft", 1, VK_API_VERSION_1_3};
  const VkDebugUtilsMessengerCreateInfoEXT messenger = {
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      nullptr,
      0,
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
      on_message,
      nullptr};
  const VkValidationFeatureEnableEXT enable = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  const VkValidationFeaturesEXT features = {
      VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, &messenger, 1, &enable, 0, nullptr};
  const auto available = enumerate<VkExtensionProperties>("list instance extensions", [](auto* count, auto* list) {
    return vkEnumerateInstanceExtensionProperties(nullptr, count, list);
  });
  const bool portability = has_extension(available, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  debug_labels_ = flag("WEFT_LABELS") && has_extension(available, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  const bool names = validation || debug_labels_;
  std::vector<const char*> extensions;
  if (names) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (validation) extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  if (portability) extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);  // lists MoltenVK too
  VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  if (portability) info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  if (validation) {
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kLayer;
  }
  const VkResult result = vkCreateInstance(&info, nullptr, &handle_);
  // Without any driver, loaders say so here or below instead of listing no device.
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return;
  check(result, "create the Vulkan instance");
  volkLoadInstanceOnly(handle_);
  debug_utils_ = names;
  if (validation)
    check(vkCreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &messenger_), "listen to validation messages");
  list_devices();
}

void Instance::list_devices() {
  const auto get = [&](uint32_t* count, VkPhysicalDevice* list) {
    const VkResult result = vkEnumeratePhysicalDevices(handle_, count, list);
    if (result != VK_ERROR_INITIALIZATION_FAILED) return result;
    *count = 0;  // no driver
    return VK_SUCCESS;
  };
  const char* disabled = std::getenv("WEFT_DISABLE");
  for (VkPhysicalDevice handle : enumerate<VkPhysicalDevice>("list the devices", get)) {
    Physical device = {handle, read_caps(handle_, handle)};
    if (disabled) disable(device.caps, disabled);
    devices_.push_back(std::move(device));
  }
}

Instance::~Instance() {
  if (messenger_) vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (handle_) vkDestroyInstance(handle_, nullptr);
}

}  // namespace weft
