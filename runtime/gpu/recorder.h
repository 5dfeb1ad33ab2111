// Recording dispatches into command buffers that can be replayed any number of times.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/kernel.h"
#include "gpu/vulkan.h"

namespace weft {

class Device;
class Timestamps;

// Owner of command buffers' memory and descriptors. One thread at a time. It must outlive the command buffers made from
// it, and none of them may be in flight when it is destroyed.
class CommandPool {
 public:
  explicit CommandPool(std::shared_ptr<Device> device);
  ~CommandPool();
  CommandPool(const CommandPool&) = delete;
  CommandPool& operator=(const CommandPool&) = delete;

  Device& device() const { return *device_; }

 private:
  friend class Recorder;
  VkCommandBuffer new_command_buffer();
  VkDescriptorSet new_set(const Kernel& kernel);
  VkBufferView new_texel_view(const View& view);

  std::shared_ptr<Device> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorPool> descriptor_pools_;
  std::vector<VkBufferView> texel_views_;
};

// Recorded commands, replayable once their last submission has ended; owned by the pool.
class CommandBuffer {
 public:
  VkCommandBuffer handle() const { return handle_; }
  bool operator==(const CommandBuffer&) const = default;

 private:
  friend class Recorder;
  VkCommandBuffer handle_ = VK_NULL_HANDLE;
};

struct Groups {
  uint32_t x = 1, y = 1, z = 1;
};

// A dispatch of a dry run.
struct Dispatch {
  KernelSpec kernel;
  Groups groups;                // {} if they are read when it runs
  std::vector<uint64_t> bytes;  // of each binding; 0: it was left out
};

// Records one command buffer. It waits for all work submitted before it, and inserts a barrier wherever a dispatch or
// copy touches bytes that an earlier one in it wrote, or writes bytes that an earlier one read. Barriers between
// dispatches do not wait for copies whose bytes nobody touches: these go on beside the dispatches.
class Recorder {
 public:
  // timestamps, if given, get one mark per dispatch.
  Recorder(CommandPool& pool, const std::string& name, Timestamps* timestamps = nullptr);
  // A dry run: records nothing. Operations called with it only ask the device for their kernels, which then compile
  // side by side. It cannot be finished.
  explicit Recorder(Device& device) : pool_(nullptr), device_(device), timestamps_(nullptr) {}
  // A dry run that compiles nothing: it appends each dispatch to the list, and counts barriers.
  Recorder(Device& device, std::vector<Dispatch>& list);

  Device& device() const { return device_; }

  // Runs a kernel with its arguments by name (gpu/shader.h), for example {}, shaders::Add::Bindings{.x = x, .y = y} of
  // shaders::add: with the type, the compiler names a missing one. S: the shader's type. An optional binding that is
  // left out costs nothing: no bytes, no barrier. Throws Error(internal) if another one is an empty view, in release
  // builds too.
  template <class S, class Push>
  void dispatch(const S& shader, const typename S::Constants& constants, const typename S::Bindings& bindings,
                const Push& push, Groups groups) {
    static_assert(sizeof(Push) == S::kPushBytes, "the shader has other push constants");
    dispatch_bytes(shader, constants.list(), bindings.list(), std::as_bytes(std::span<const Push, 1>(&push, 1)),
                   groups);
  }

  template <class S>  // no push constants
  void dispatch(const S& shader, const typename S::Constants& constants, const typename S::Bindings& bindings,
                Groups groups) {
    static_assert(S::kPushBytes == 0, "the shader has push constants");
    dispatch_bytes(shader, constants.list(), bindings.list(), {}, groups);
  }

  // The same with the number of groups in x read when it runs, from the uint at `count` (y and z, after it, are 1):
  // three 32-bit words, at most caps.max_groups in x.
  template <class S, class Push>
  void dispatch_indirect(const S& shader, const typename S::Constants& constants, const typename S::Bindings& bindings,
                         const Push& push, const View& count) {
    static_assert(sizeof(Push) == S::kPushBytes, "the shader has other push constants");
    dispatch_bytes(shader, constants.list(), bindings.list(), std::as_bytes(std::span<const Push, 1>(&push, 1)), {},
                   &count);
  }

  void copy(const View& from, const View& to);  // from.bytes bytes
  void fill(const View& view, uint32_t word);

  const std::vector<const Kernel*>& dispatched() const { return dispatched_; }  // the kernels so far, in order

  size_t barriers() const { return barriers_; }  // so far, the one that the recording begins with among them

  // Ends the recording. host_reads: the CPU will read what was written, once the submission's fence has signalled.
  CommandBuffer finish(bool host_reads = false);

 private:
  struct Access {
    VkBuffer buffer;
    uint64_t begin, end;
    bool write;
    bool transfer = false;
    bool indirect = false;  // the number of a dispatch's workgroups
    bool dispatch() const { return !transfer && !indirect; }
  };
  void dispatch_bytes(const Shader& shader, std::vector<uint32_t> constants, std::vector<View> bindings,
                      std::span<const std::byte> push, Groups groups, const View* indirect = nullptr);
  void check_arguments(const Shader& shader, std::span<const View> bindings, Groups groups) const;
  VkDescriptorSet bind(const Kernel& kernel, std::span<const View> bindings);
  void use(std::span<const Access> accesses);
  void barrier(VkPipelineStageFlags src_stages, VkAccessFlags dst_access, VkPipelineStageFlags dst_stages);
  void dispatch_barrier();

  CommandPool* pool_;  // nullptr: a dry run
  Device& device_;
  Timestamps* timestamps_;
  std::vector<Dispatch>* list_ = nullptr;  // of a dry run that compiles nothing
  CommandBuffer commands_;
  std::vector<Access> since_barrier_;  // that a dispatch may have to wait for
  std::vector<Access> since_full_;     // that a transfer or an indirect read may have to wait for
  size_t barriers_ = 0;
  std::vector<const Kernel*> dispatched_;
};

// Device time per operation of replayed command buffers. Records into it, replays, waits for the fence, then reads.
class Timestamps {
 public:
  Timestamps(std::shared_ptr<Device> device, uint32_t capacity);  // marks
  ~Timestamps();
  Timestamps(const Timestamps&) = delete;
  Timestamps& operator=(const Timestamps&) = delete;

  struct Stage {
    const char* name;
    double seconds;
    uint32_t dispatches = 1;  // of one replay
  };
  // Seconds by operation of the last replay, in order of first appearance.
  std::vector<Stage> read() const;
  // Seconds of the last replay between the last dispatch of a command buffer and the begin of the next.
  double gaps() const;

 private:
  friend class Recorder;
  void start(VkCommandBuffer commands);                   // resets and sets the mark a command buffer begins with
  void mark(VkCommandBuffer commands, const char* name);  // the end of a dispatch
  std::vector<uint64_t> ticks() const;
  std::shared_ptr<Device> device_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  uint32_t capacity_;
  std::vector<const char*> names_;  // by query; nullptr where a command buffer begins
  double seconds_per_tick_;
};

// Records with the given function, runs it and waits: for uploads, tests and measurements.
void run_once(const std::shared_ptr<Device>& device, const std::string& name,
              const std::function<void(Recorder&)>& record);

}  // namespace weft
