#include "gpu/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/ascii.h"
#include "base/file.h"
#include "base/private_file.h"
#include "base/process_limits.h"
#include "base/signals.h"
#include "gpu/choose_device.h"
#include "gpu/cooperative_matrix.h"
#include "gpu/memory_map.h"
#include "gpu/pipeline_cache.h"
#include "gpu/recorder.h"
#include "gpu/tuning.h"

namespace weft {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = ascii_lower(c);
  return result;
}

std::string list_names(const std::vector<Instance::Physical>& devices) {
  std::string names;
  for (size_t i = 0; i < devices.size(); ++i) names += (i ? ", " : "") + std::to_string(i) + " " + devices[i].caps.name;
  return names;
}

const Instance::Physical& choose(const std::vector<Instance::Physical>& devices, std::string_view selector) {
  if (devices.empty()) {
    const std::string limits = limits_hint();  // loaders leave out a driver that they cannot load
    throw Error(Code::no_device, "the Vulkan loader found no device", "Vulkan",
                !limits.empty()
                    ? limits
                    : "install your GPU's Vulkan driver; mesa-vulkan-drivers has a software one for any machine");
  }
  if (selector.empty())
    if (const char* variable = std::getenv("WEFT_DEVICE")) selector = variable;
  if (selector.empty()) return devices[best_device(devices)];
  size_t index = 0;
  const auto [end, error] = std::from_chars(selector.data(), selector.data() + selector.size(), index);
  if (error == std::errc() && end == selector.data() + selector.size() && index < devices.size()) return devices[index];
  for (const Instance::Physical& device : devices)  // a number may be a part of a name too: "4090"
    if (lower(device.caps.name).find(lower(selector)) != std::string::npos) return device;
  throw Error(Code::no_device, "no Vulkan device is called '" + std::string(selector) + "'", "device",
              "there is: " + list_names(devices));
}

}  // namespace

std::vector<DeviceListing> list_devices() {
  const std::shared_ptr<Instance> instance = Instance::get();
  std::vector<DeviceListing> list;
  for (const Instance::Physical& device : instance->devices()) {
    DeviceListing entry = {device.caps, {}, {}};
    try {
      entry.plan = tuned_plan(device.caps).plan;
    } catch (const Error& refusal) {
      if (refusal.code() != Code::unsupported) throw;  // WEFT_PLAN is wrong for every device
      entry.refusal = refusal.sentence();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

size_t find_device(std::string_view selector) {
  const std::shared_ptr<Instance> instance = Instance::get();
  return static_cast<size_t>(&choose(instance->devices(), selector) - instance->devices().data());
}

std::shared_ptr<Device> Device::open(std::string_view selector, const std::function<Plan(const Caps&)>& planner) {
  std::shared_ptr<Instance> instance = Instance::get();
  const Instance::Physical& physical = choose(instance->devices(), selector);
  std::shared_ptr<Device> device(new Device(std::move(instance), physical));
  device->create(planner);
  return device;
}

Device::Device(std::shared_ptr<Instance> instance, const Instance::Physical& physical)
    : instance_(std::move(instance)),
      physical_(physical.handle),
      caps_(physical.caps),
      compilers_(std::max(std::thread::hardware_concurrency(), 1u)) {}

void Device::create(const std::function<Plan(const Caps&)>& planner) {
  const BlockedSignals blocked;  // of the threads that drivers start
  plan_ = planner(caps_);

  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  for (queue_family_ = 0; queue_family_ < count; ++queue_family_)
    if (families[queue_family_].queueFlags & VK_QUEUE_COMPUTE_BIT) break;
  if (queue_family_ == count) throw Error(Code::unsupported, "the device has no compute queue", caps_.name);

  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, queue_family_, 1, &priority};
  // Subgroup arithmetic and timestamps are properties of Vulkan 1.1, which need not be switched on.
  std::vector<const char*> extensions;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, nullptr, VK_TRUE};
  VkPhysicalDeviceShaderFloat16Int8Features fp16 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                                                    nullptr, VK_TRUE, VK_FALSE};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, nullptr, VK_TRUE};
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                                                       nullptr, VK_FALSE, VK_TRUE};
  VkPhysicalDeviceVulkanMemoryModelFeatures model = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                                                     nullptr, VK_TRUE};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, &model, VK_TRUE, VK_FALSE};
  void* features = nullptr;
  if (plan_.statistics) {
    extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    statistics.pNext = std::exchange(features, &statistics);
  }
  if (caps_.fp16) {
    if (caps_.api_version < VK_API_VERSION_1_2) extensions.push_back(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
    fp16.pNext = std::exchange(features, &fp16);
  }
  if (caps_.int8_dot) {
    if (caps_.api_version < VK_API_VERSION_1_3) extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    dots.pNext = std::exchange(features, &dots);
  }
  if (caps_.full_subgroups) {
    if (caps_.api_version < VK_API_VERSION_1_3) extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    sizes.pNext = std::exchange(features, &sizes);
  }
  if (caps_.matrices) {
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    if (caps_.api_version < VK_API_VERSION_1_2) extensions.push_back(VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME);
    model.pNext = std::exchange(features, &matrices);
  }
  if (caps_.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  for (const VkExtensionProperties& extension :
       device_extensions(physical_))  // a device that lists it must get it switched on
    if (std::strcmp(extension.extensionName, "VK_KHR_portability_subset") == 0)
      extensions.push_back("VK_KHR_portability_subset");
  const VkDeviceCreateInfo info = {
      VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,     features,          0,      1, &queue, 0, nullptr,
      static_cast<uint32_t>(extensions.size()), extensions.data(), nullptr};
  check(vkCreateDevice(physical_, &info, nullptr, &handle_), "create the device");
  volkLoadDeviceTable(&table_, handle_);
  table_.vkGetDeviceQueue(handle_, queue_family_, 0, &queue_);
  load_pipeline_cache();
}

Device::~Device() {
  if (!handle_) return;
  for (const auto& [key, kernel] : kernels_) kernel->wait();
  if (given_up_) {
    kernels_.clear();
    [[maybe_unused]] static auto* const kept = new std::shared_ptr<Instance>(instance_);  // the device is its child
    return;
  }
  table_.vkDeviceWaitIdle(handle_);
  save_pipeline_cache();
  kernels_.clear();
  if (pipeline_cache_) table_.vkDestroyPipelineCache(handle_, pipeline_cache_, nullptr);
  table_.vkDestroyDevice(handle_, nullptr);
}

void Device::load_pipeline_cache() {
  std::vector<std::byte> data;
  if (const auto path = pipeline_cache_path(caps_)) {
    // The data go to the driver, which believes them. No cache yet, or not readable: starts with an empty one.
    if (const auto file = open_private(*path))
      if (auto sealed = open_pipeline_cache(file->bytes(), caps_)) data = std::move(*sealed);
  }
  loaded_cache_bytes_ = data.size();
  const VkPipelineCacheCreateInfo info = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, nullptr, 0, data.size(),
                                          data.data()};
  check(table_.vkCreatePipelineCache(handle_, &info, nullptr, &pipeline_cache_), "create the pipeline cache");
}

void Device::save_pipeline_cache() noexcept {
  try {
    const auto path = pipeline_cache_path(caps_);
    size_t bytes = 0;
    const std::lock_guard lock(pipeline_cache_mutex_);
    if (!path || kernels().empty() || !pipeline_cache_) return;
    if (table_.vkGetPipelineCacheData(handle_, pipeline_cache_, &bytes, nullptr) != VK_SUCCESS) return;
    if (bytes == loaded_cache_bytes_) return;  // nothing was added
    std::vector<std::byte> data(bytes);
    if (table_.vkGetPipelineCacheData(handle_, pipeline_cache_, &bytes, data.data()) != VK_SUCCESS) return;
    data.resize(bytes);
    write_file_atomically(*path, seal_pipeline_cache(data), Rights::owner);
    loaded_cache_bytes_ = bytes;
  } catch (const std::exception&) {  // a full disk or a read-only home costs start-up time, nothing else
  }
}

void Device::save_new_pipelines() noexcept {
  {
    const std::lock_guard lock(compilers_mutex_);
    const bool all_free = compilers_ == std::max(std::thread::hardware_concurrency(), 1u);
    if (!all_free || !std::exchange(pipelines_are_new_, false)) return;
  }
  save_pipeline_cache();
}

Device::Compiling::Compiling(Device& device) : device_(device) {
  std::unique_lock lock(device_.compilers_mutex_);
  device_.compiler_free_.wait(lock, [&] { return device_.compilers_ > 0; });
  --device_.compilers_;
}

Device::Compiling::~Compiling() {
  const std::lock_guard lock(device_.compilers_mutex_);
  ++device_.compilers_;
  device_.pipelines_are_new_ = true;
  device_.compiler_free_.notify_one();
}

const Kernel& Device::kernel(const KernelSpec& spec) {
  const std::lock_guard lock(kernels_mutex_);
  std::pair key = {spec.shader.code.data(), spec.constants};
  if (const auto found = kernels_.find(key); found != kernels_.end()) {
    found->second->retry(pipeline_cache_);
    return *found->second;
  }
  auto made = std::make_unique<Kernel>(*this, spec, pipeline_cache_);
  return *kernels_.emplace(std::move(key), std::move(made)).first->second;
}

std::vector<const Kernel*> Device::kernels() {
  const std::lock_guard lock(kernels_mutex_);
  std::vector<const Kernel*> list;
  for (const auto& [key, kernel] : kernels_) list.push_back(kernel.get());
  return list;
}

void Device::submit(const std::vector<const CommandBuffer*>& commands, Fence& fence) {
  std::vector<VkCommandBuffer> handles;
  for (const CommandBuffer* command : commands) handles.push_back(command->handle());
  const VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO,         nullptr,        0, nullptr, nullptr,
                             static_cast<uint32_t>(handles.size()), handles.data(), 0, nullptr};
  const BlockedSignals blocked;  // some drivers start threads with the first work
  const std::lock_guard lock(queue_mutex_);
  if (given_up_) fail_vulkan(VK_ERROR_DEVICE_LOST, "submit commands");
  check(table_.vkResetFences(handle_, 1, &fence.handle_), "reset a fence");
  check(table_.vkQueueSubmit(queue_, 1, &info, fence.handle_), "submit commands");
  fence.pending_ = true;
}

uint64_t Device::memory_left() const {
  const std::vector<uint64_t> heaps = room_of(*this);
  const uint64_t room = std::accumulate(heaps.begin(), heaps.end(), uint64_t{0});
  return caps_.memory_budget ? room : room - std::min(room, memory_use().device);
}

MemoryUse Device::memory_use() const {
  const std::lock_guard lock(memory_mutex_);
  return memory_use_;
}

static bool on_device(Memory memory) { return memory == Memory::device || memory == Memory::shared; }

void Device::take_memory(Memory memory, uint64_t bytes, const std::string& name) {
  const std::lock_guard lock(memory_mutex_);
  if (caps_.max_allocations && allocations_ >= caps_.max_allocations)
    throw Error(Code::out_of_memory,
                "the device has no more than " + std::to_string(caps_.max_allocations) +
                    " allocations (maxMemoryAllocationCount), and all are taken",
                "buffer " + name, "free sessions that are not in use");
  if (!on_device(memory)) {
    ++allocations_;
    memory_use_.host += bytes;
    return;
  }
  const uint64_t budget = plan_.memory_budget, left = budget - std::min(budget, memory_use_.device);
  if (budget && bytes > left)
    throw Error(Code::out_of_memory,
                "it needs " + std::to_string(bytes) + " bytes, of the memory budget of " + std::to_string(budget) +
                    " there are " + std::to_string(left) + " left",
                "buffer " + name, "give a larger budget, or use a smaller context");
  ++allocations_;
  memory_use_.device += bytes;
  memory_use_.most_device = std::max(memory_use_.most_device, memory_use_.device);
}

void Device::return_memory(Memory memory, uint64_t bytes) noexcept {
  const std::lock_guard lock(memory_mutex_);
  --allocations_;
  (on_device(memory) ? memory_use_.device : memory_use_.host) -= bytes;
}

void Device::set_name(VkObjectType type, uint64_t handle, const std::string& name) const {
  if (!instance_->debug_utils() || !vkSetDebugUtilsObjectNameEXT) return;
  const VkDebugUtilsObjectNameInfoEXT info = {VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT, nullptr, type, handle,
                                              name.c_str()};
  vkSetDebugUtilsObjectNameEXT(handle_, &info);
}

// In slices: a wait on another thread may give up first, and a machine that sleeps does not count.
void Device::wait_for(VkFence fence) {
  constexpr uint64_t kSlice = 1'000'000'000;  // nanoseconds
  const uint32_t limit = caps_.kind == DeviceKind::cpu ? 1800 : 120;
  for (uint32_t slices = 0; slices < limit && !given_up_; ++slices) {
    const VkResult result = table_.vkWaitForFences(handle_, 1, &fence, VK_TRUE, kSlice);
    if (result == VK_TIMEOUT) continue;
    return check(result, "wait for the device");
  }
  given_up_ = true;
  throw Error(Code::device_lost, "it has not finished its work in " + std::to_string(limit) + " seconds",
              "device " + caps_.name, "weft_model_recover opens the device again");
}

Fence::Fence(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const VkFenceCreateInfo info = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, 0};
  check(device_->vk().vkCreateFence(device_->handle(), &info, nullptr, &handle_), "create a fence");
}

Fence::~Fence() {
  try {
    wait();
  } catch (const std::exception&) {  // lost, or given up
  }
  if (device_->given_up()) return;
  device_->vk().vkDestroyFence(device_->handle(), handle_, nullptr);
}

void Fence::wait() {
  if (!pending_) return;
  device_->wait_for(handle_);
  pending_ = false;
  device_->save_new_pipelines();
}

}  // namespace weft
