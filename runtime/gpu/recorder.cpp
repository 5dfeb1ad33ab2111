#include "gpu/recorder.h"

#include <algorithm>

#include "gpu/device.h"

namespace weft {
namespace {

constexpr VkPipelineStageFlags kStages =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kAll = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_READ_BIT |
                               VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_INDIRECT_COMMAND_READ_BIT;

constexpr uint32_t kSetsPerPool = 256, kDescriptorsPerPool = 2048;

// Gives an optional binding that was left out the view of another one of its kind: the shader does not use it, but
// drivers want something valid. One that may be written gets one that may be written, whose accesses are known.
void fill_optional(const Shader& shader, std::vector<View>& bindings) {
  const auto fits = [&](size_t from, size_t to) {
    const bool same_type = (shader.texel >> from & 1) == (shader.texel >> to & 1);
    return bindings[from].buffer && same_type && (shader.written >> from & 1) >= (shader.written >> to & 1);
  };
  for (size_t i = 0; i < bindings.size(); ++i)
    for (size_t other = 0; other < bindings.size() && !bindings[i].buffer; ++other)
      if (fits(other, i)) bindings[i] = bindings[other];
}

}  // namespace

CommandPool::CommandPool(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const VkCommandPoolCreateInfo info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0,
                                        device_->queue_family()};
  check(device_->vk().vkCreateCommandPool(device_->handle(), &info, nullptr, &pool_), "create a command pool");
}

CommandPool::~CommandPool() {
  if (device_->given_up()) return;
  for (VkBufferView view : texel_views_) device_->vk().vkDestroyBufferView(device_->handle(), view, nullptr);
  for (VkDescriptorPool pool : descriptor_pools_)
    device_->vk().vkDestroyDescriptorPool(device_->handle(), pool, nullptr);
  device_->vk().vkDestroyCommandPool(device_->handle(), pool_, nullptr);
}

VkCommandBuffer CommandPool::new_command_buffer() {
  const VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                            VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  VkCommandBuffer handle = VK_NULL_HANDLE;
  check(device_->vk().vkAllocateCommandBuffers(device_->handle(), &info, &handle), "allocate a command buffer");
  return handle;
}

VkDescriptorSet CommandPool::new_set(const Kernel& kernel) {
  const VkDescriptorSetLayout layout = kernel.set_layout();
  VkDescriptorSetAllocateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, VK_NULL_HANDLE, 1,
                                      &layout};
  VkDescriptorSet set = VK_NULL_HANDLE;
  if (!descriptor_pools_.empty()) {
    info.descriptorPool = descriptor_pools_.back();
    const VkResult result = device_->vk().vkAllocateDescriptorSets(device_->handle(), &info, &set);
    if (result == VK_SUCCESS) return set;
    if (result != VK_ERROR_OUT_OF_POOL_MEMORY && result != VK_ERROR_FRAGMENTED_POOL)
      fail_vulkan(result, "allocate descriptors");
  }
  const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kDescriptorsPerPool},
                                        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 4 * kSetsPerPool}};
  const VkDescriptorPoolCreateInfo pool_info = {
      VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, kSetsPerPool, 2, sizes};
  descriptor_pools_.push_back(VK_NULL_HANDLE);  // before there is something to lose
  const VkResult made =
      device_->vk().vkCreateDescriptorPool(device_->handle(), &pool_info, nullptr, &descriptor_pools_.back());
  if (made != VK_SUCCESS) {
    descriptor_pools_.pop_back();
    fail_vulkan(made, "create a descriptor pool");
  }
  info.descriptorPool = descriptor_pools_.back();
  check(device_->vk().vkAllocateDescriptorSets(device_->handle(), &info, &set), "allocate descriptors");
  return set;
}

VkBufferView CommandPool::new_texel_view(const View& view) {
  const VkBufferViewCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                       nullptr,
                                       0,
                                       view.buffer->handle(),
                                       VK_FORMAT_R32G32B32A32_UINT,
                                       view.offset,
                                       view.bytes};
  texel_views_.push_back(VK_NULL_HANDLE);
  check(device_->vk().vkCreateBufferView(device_->handle(), &info, nullptr, &texel_views_.back()),
        "create a texel view");
  return texel_views_.back();
}

Recorder::Recorder(CommandPool& pool, const std::string& name, Timestamps* timestamps)
    : pool_(&pool), device_(pool.device()), timestamps_(timestamps) {
  commands_.handle_ = pool.new_command_buffer();
  device_.set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, reinterpret_cast<uint64_t>(commands_.handle_), name);
  // Without SIMULTANEOUS_USE, for which some drivers copy or patch the commands at each submission.
  const VkCommandBufferBeginInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, 0, nullptr};
  check(device_.vk().vkBeginCommandBuffer(commands_.handle_, &info), "begin a command buffer");
  barrier(kStages, kAll, kStages);
  if (timestamps_) timestamps_->start(commands_.handle_);
}

Recorder::Recorder(Device& device, std::vector<Dispatch>& list) : Recorder(device) {
  list_ = &list;
  barrier(kStages, kAll, kStages);
}

void Recorder::dispatch_bytes(const Shader& shader, std::vector<uint32_t> constants, std::vector<View> bindings,
                              std::span<const std::byte> push, Groups groups, const View* indirect) {
  check_arguments(shader, bindings, groups);
  constants.resize(shader.constants);  // its variants may have more
  const KernelSpec spec = {shader, std::move(constants)};
  std::vector<Access> accesses;
  for (uint32_t binding = 0; const View& view : bindings) {
    const bool written = shader.written >> binding++ & 1;
    if (view.buffer) accesses.push_back({view.buffer->handle(), view.offset, view.offset + view.bytes, written});
  }
  if (indirect)
    accesses.push_back({indirect->buffer->handle(), indirect->offset, indirect->offset + 12, false, false, true});
  if (list_) {
    list_->push_back({spec, groups, {}});
    for (const View& view : bindings) list_->back().bytes.push_back(view.bytes);
    return use(accesses);
  }
  const Kernel& kernel = device_.kernel(spec);
  dispatched_.push_back(&kernel);
  if (!pool_) return;
  const VolkDeviceTable& vk = device_.vk();
  fill_optional(shader, bindings);
  const VkDescriptorSet set = bind(kernel, bindings);
  use(accesses);
  const VkCommandBuffer commands = commands_.handle_;
  const bool label = device_.debug_labels() && vkCmdBeginDebugUtilsLabelEXT;
  if (label) {
    const VkDebugUtilsLabelEXT info = {VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, nullptr, kernel.name(), {}};
    vkCmdBeginDebugUtilsLabelEXT(commands, &info);
  }
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline());
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout(), 0, 1, &set, 0, nullptr);
  if (!push.empty())
    vk.vkCmdPushConstants(commands, kernel.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(push.size()),
                          push.data());
  if (indirect)
    vk.vkCmdDispatchIndirect(commands, indirect->buffer->handle(), indirect->offset);
  else
    vk.vkCmdDispatch(commands, groups.x, groups.y, groups.z);
  if (label) vkCmdEndDebugUtilsLabelEXT(commands);
  if (timestamps_) timestamps_->mark(commands, kernel.name());
}

VkDescriptorSet Recorder::bind(const Kernel& kernel, std::span<const View> bindings) {
  const VkDescriptorSet set = pool_->new_set(kernel);
  std::vector<VkDescriptorBufferInfo> infos(bindings.size());
  std::vector<VkWriteDescriptorSet> writes(bindings.size());
  std::vector<VkBufferView> texels(bindings.size(), VK_NULL_HANDLE);
  uint32_t binding = 0;
  for (const View& view : bindings) {
    infos[binding] = {view.buffer->handle(), view.offset, view.bytes};
    writes[binding] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                       nullptr,
                       set,
                       binding,
                       0,
                       1,
                       kernel.type(binding),
                       nullptr,
                       &infos[binding],
                       &texels[binding]};
    if (kernel.type(binding) == VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER) texels[binding] = pool_->new_texel_view(view);
    ++binding;
  }
  device_.vk().vkUpdateDescriptorSets(device_.handle(), binding, writes.data(), 0, nullptr);
  return set;
}

// Shapes of a file decide these numbers, so a device's limits are checked here and not taken on trust.
void Recorder::check_arguments(const Shader& shader, std::span<const View> bindings, Groups groups) const {
  const Caps& caps = device_.caps();
  const auto require = [&](const char* what, uint64_t needed, uint64_t limit) {
    if (needed > limit)
      throw Error(Code::unsupported,
                  std::string(what) + " " + std::to_string(needed) + ", the device's limit is " + std::to_string(limit),
                  shader.name, "use a smaller model or context");
  };
  uint32_t binding = 0;
  for (const View& view : bindings) {
    if (!view.buffer && !(shader.optional >> binding & 1))
      throw Error(Code::internal, "the binding '" + binding_name(shader, binding) + "' is an empty view", shader.name);
    require("one binding would have to reach bytes:", view.bytes,
            shader.texel >> binding & 1 ? caps.max_texels * 16 : caps.max_range);
    ++binding;
  }
  require("workgroups needed:", groups.x, caps.max_groups);
  require("workgroups needed:", std::max(groups.y, groups.z), 65535);  // what Vulkan guarantees
}

void Recorder::copy(const View& from, const View& to) {
  if (!pool_ && !list_) return;
  const Access accesses[] = {{from.buffer->handle(), from.offset, from.offset + from.bytes, false, true},
                             {to.buffer->handle(), to.offset, to.offset + from.bytes, true, true}};
  use(accesses);
  if (list_) return;
  const VkBufferCopy region = {from.offset, to.offset, from.bytes};
  device_.vk().vkCmdCopyBuffer(commands_.handle_, from.buffer->handle(), to.buffer->handle(), 1, &region);
}

void Recorder::fill(const View& view, uint32_t word) {
  if (!pool_ && !list_) return;
  const Access accesses[] = {{view.buffer->handle(), view.offset, view.offset + view.bytes, true, true}};
  use(accesses);
  if (list_) return;
  device_.vk().vkCmdFillBuffer(commands_.handle_, view.buffer->handle(), view.offset, view.bytes, word);
}

// Most barriers are between dispatches, and name nothing else: indirect reads and transfers are other parts of a GPU,
// and a barrier that names them stops it for longer.
void Recorder::use(std::span<const Access> accesses) {
  bool full = false, between_dispatches = false;
  const auto meets = [](const Access& now, const Access& before) {
    return now.buffer == before.buffer && now.begin < before.end && before.begin < now.end &&
           (now.write || before.write);
  };
  for (const Access& now : accesses)
    for (const Access& before : now.dispatch() ? since_barrier_ : since_full_)
      if (meets(now, before)) (now.dispatch() && before.dispatch() ? between_dispatches : full) = true;
  if (full)
    barrier(kStages, kAll, kStages);
  else if (between_dispatches)
    dispatch_barrier();
  since_barrier_.insert(since_barrier_.end(), accesses.begin(), accesses.end());
  since_full_.insert(since_full_.end(), accesses.begin(), accesses.end());
}

void Recorder::barrier(VkPipelineStageFlags src_stages, VkAccessFlags dst_access, VkPipelineStageFlags dst_stages) {
  const VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  const VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, writes, dst_access};
  ++barriers_;
  if (!list_)
    device_.vk().vkCmdPipelineBarrier(commands_.handle_, src_stages, dst_stages, 0, 1, &memory, 0, nullptr, 0, nullptr);
  since_barrier_.clear();
  since_full_.clear();
}

// Transfers and indirect reads stay in since_barrier_: this barrier does not order them.
void Recorder::dispatch_barrier() {
  const VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  ++barriers_;
  constexpr VkPipelineStageFlags kDispatch = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  if (!list_)
    device_.vk().vkCmdPipelineBarrier(commands_.handle_, kDispatch, kDispatch, 0, 1, &memory, 0, nullptr, 0, nullptr);
  std::erase_if(since_barrier_, [](const Access& access) { return access.dispatch(); });
}

CommandBuffer Recorder::finish(bool host_reads) {
  if (!pool_) throw Error(Code::internal, "a dry run has no commands", "recorder");
  if (host_reads) barrier(kStages, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
  check(device_.vk().vkEndCommandBuffer(commands_.handle_), "end a command buffer");
  return commands_;
}

Timestamps::Timestamps(std::shared_ptr<Device> device, uint32_t capacity)
    : device_(std::move(device)), capacity_(capacity), seconds_per_tick_(device_->caps().timestamp_period * 1e-9) {
  const VkQueryPoolCreateInfo info = {
      VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, nullptr, 0, VK_QUERY_TYPE_TIMESTAMP, capacity, 0};
  check(device_->vk().vkCreateQueryPool(device_->handle(), &info, nullptr, &pool_), "create a timestamp pool");
}

Timestamps::~Timestamps() {
  if (!device_->given_up()) device_->vk().vkDestroyQueryPool(device_->handle(), pool_, nullptr);
}

void Timestamps::start(VkCommandBuffer commands) { mark(commands, nullptr); }

void Timestamps::mark(VkCommandBuffer commands, const char* name) {
  if (names_.size() == capacity_)
    throw Error(Code::internal, "more than " + std::to_string(capacity_) + " marks were recorded", "timestamps");
  const uint32_t query = static_cast<uint32_t>(names_.size());
  device_->vk().vkCmdResetQueryPool(commands, pool_, query, 1);
  device_->vk().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, query);
  names_.push_back(name);
}

std::vector<uint64_t> Timestamps::ticks() const {
  std::vector<uint64_t> ticks(names_.size());
  if (ticks.empty()) return ticks;
  check(device_->vk().vkGetQueryPoolResults(device_->handle(), pool_, 0, static_cast<uint32_t>(ticks.size()),
                                            ticks.size() * 8, ticks.data(), 8,
                                            VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "read timestamps");
  return ticks;
}

double Timestamps::gaps() const {
  const std::vector<uint64_t> ticks = this->ticks();
  double seconds = 0;
  for (size_t i = 1; i < ticks.size(); ++i)
    if (!names_[i] && ticks[i] > ticks[i - 1])
      seconds += static_cast<double>(ticks[i] - ticks[i - 1]) * seconds_per_tick_;
  return seconds;
}

std::vector<Timestamps::Stage> Timestamps::read() const {
  const std::vector<uint64_t> ticks = this->ticks();
  std::vector<Stage> stages;
  for (size_t i = 1; i < ticks.size(); ++i) {
    if (!names_[i] || ticks[i] < ticks[i - 1]) continue;  // where a command buffer begins, or the counter wrapped
    const double seconds = static_cast<double>(ticks[i] - ticks[i - 1]) * seconds_per_tick_;
    Stage* found = nullptr;
    for (Stage& stage : stages)
      if (stage.name == names_[i]) found = &stage;
    if (found)
      found->seconds += seconds, ++found->dispatches;
    else
      stages.push_back({names_[i], seconds});
  }
  return stages;
}

void run_once(const std::shared_ptr<Device>& device, const std::string& name,
              const std::function<void(Recorder&)>& record) {
  CommandPool pool(device);
  Fence fence(device);
  Recorder recorder(pool, name);
  record(recorder);
  const CommandBuffer commands = recorder.finish(true);
  device->submit({&commands}, fence);
  fence.wait();
}

}  // namespace weft
