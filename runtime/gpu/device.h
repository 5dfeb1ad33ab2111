// A logical device with one compute queue: makes buffers and kernels, and runs recorded commands.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/caps.h"
#include "gpu/instance.h"
#include "gpu/kernel.h"
#include "gpu/plan.h"

namespace weft {

class CommandBuffer;

// Caps and plan of each of the machine's devices, in Vulkan's order; plan empty and refusal set where Weft cannot run.
struct DeviceListing {
  Caps caps;
  Plan plan;
  std::string refusal;
};
std::vector<DeviceListing> list_devices();
// Which of them Device::open opens. Throws as it does for a selector that fits none.
size_t find_device(std::string_view selector);

// Threads: everything may be called from any thread at once. Outlives its buffers, kernels and commands: users hold the
// shared_ptr.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // selector: an index, or a part of a device's name in any case; empty: $WEFT_DEVICE, else the best device (discrete
  // before integrated before virtual before cpu). planner: tests force small limits with one of their own.
  // Throws Error(no_device) listing what there is.
  static std::shared_ptr<Device> open(std::string_view selector = {},
                                      const std::function<Plan(const Caps&)>& planner = make_plan);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Caps& caps() const { return caps_; }
  const Plan& plan() const { return plan_; }

  // The kernel for a specification; the same one for the same shader and constants. Starts to compile at first use,
  // beside others: ask for all before the first is waited for (Recorder's dry run).
  const Kernel& kernel(const KernelSpec& spec);

  std::vector<const Kernel*> kernels();  // all that there are

  // Runs recorded commands, none of which is in flight, in order after everything submitted before, and signals the
  // fence (which must be at rest) at the end.
  void submit(const std::vector<const CommandBuffer*>& commands, class Fence& fence);

  // True after a wait timed out: the driver may still use any object, so none of them is destroyed.
  bool given_up() const { return given_up_; }

  // Bytes of memory that can still be allocated, according to the driver or, without its report, to our buffers.
  uint64_t memory_left() const;
  // Memory of this device's buffers.
  MemoryUse memory_use() const;

  // Names an object for debuggers and validation messages.
  void set_name(VkObjectType type, uint64_t handle, const std::string& name) const;

  VkDevice handle() const { return handle_; }
  VkPhysicalDevice physical() const { return physical_; }
  uint32_t queue_family() const { return queue_family_; }
  const VolkDeviceTable& vk() const { return table_; }
  bool debug_labels() const { return instance_->debug_labels(); }

 private:
  friend class Buffer;
  friend class Fence;
  friend class Kernel;
  // A compiler's turn: as many at once as there are cores, because each may need much memory.
  class Compiling {
   public:
    explicit Compiling(Device& device);
    ~Compiling();
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;

   private:
    Device& device_;
  };
  // Throws Error(out_of_memory) where the plan's budget has no room.
  void take_memory(Memory memory, uint64_t bytes, const std::string& name);
  void return_memory(Memory memory, uint64_t bytes) noexcept;
  Device(std::shared_ptr<Instance> instance, const Instance::Physical& physical);
  void create(const std::function<Plan(const Caps&)>& planner);
  void wait_for(VkFence fence);
  void load_pipeline_cache();
  void save_pipeline_cache() noexcept;
  // After a pass, if pipelines were compiled since the last time and none is being compiled: a process may be killed at
  // any time.
  void save_new_pipelines() noexcept;

  std::shared_ptr<Instance> instance_;
  VkPhysicalDevice physical_;
  Caps caps_;
  Plan plan_;
  VkDevice handle_ = VK_NULL_HANDLE;
  VolkDeviceTable table_ = {};
  uint32_t queue_family_ = 0;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
  mutable std::mutex memory_mutex_;
  MemoryUse memory_use_;
  uint32_t allocations_ = 0;
  std::atomic<bool> given_up_ = false;
  std::mutex kernels_mutex_;
  std::mutex compilers_mutex_;  // a count and not std::counting_semaphore, which can sleep forever in gcc 12's library
  std::condition_variable compiler_free_;
  uint32_t compilers_;  // free turns
  bool pipelines_are_new_ = false;
  std::mutex pipeline_cache_mutex_;  // of the file
  VkPipelineCache pipeline_cache_ = VK_NULL_HANDLE;
  size_t loaded_cache_bytes_ = 0;
  // By where the shader's code lies, and constants.
  std::map<std::pair<const uint8_t*, std::vector<uint32_t>>, std::unique_ptr<Kernel>> kernels_;
};

// Signalled when a submission has finished. One user at a time.
class Fence {
 public:
  explicit Fence(std::shared_ptr<Device> device);
  ~Fence();  // waits for a pending submission
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  // Returns after the submission has finished, at once without a submission. Throws Error(device_lost), also after 2
  // minutes, or 30 on a CPU; then the device is given up.
  void wait();
  bool pending() const { return pending_; }

 private:
  friend class Device;
  std::shared_ptr<Device> device_;
  VkFence handle_ = VK_NULL_HANDLE;
  bool pending_ = false;
};

}  // namespace weft
