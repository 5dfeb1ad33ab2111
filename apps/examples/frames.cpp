// Draws sixty frames a second with Vulkan while a session chats on the same GPU, and measures how long the frames take:
// alone, beside each policy, and beside a polite session with a share of the device's time.
//
// frames [MODEL] [SECONDS]: seconds for each of these; there is no window, frames go to an image.
#include <vulkan/vulkan.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <weft/weft.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
constexpr std::chrono::microseconds kFrame(16667);

void check(VkResult result, const char* what) {
  if (result != VK_SUCCESS) throw std::runtime_error(std::string(what) + ": VkResult " + std::to_string(result));
}

// A device and a queue of the application's own, and one frame in a command buffer: a picture is cleared and scaled to
// the screen's size many times, about as a game's passes over the screen would.
class Painter {
 public:
  explicit Painter(const std::string& device_name) {
    VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = VK_API_VERSION_1_1;
    VkInstanceCreateInfo instance = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    instance.pApplicationInfo = &application;
    check(vkCreateInstance(&instance, nullptr, &instance_), "vkCreateInstance");
    find_device(device_name);
    make_commands();
  }
  ~Painter() {
    if (device_) vkDeviceWaitIdle(device_);
    for (const VkImage image : images_) vkDestroyImage(device_, image, nullptr);
    for (const VkDeviceMemory memory : memories_) vkFreeMemory(device_, memory, nullptr);
    if (fence_) vkDestroyFence(device_, fence_, nullptr);
    if (pool_) vkDestroyCommandPool(device_, pool_, nullptr);
    if (device_) vkDestroyDevice(device_, nullptr);
    if (instance_) vkDestroyInstance(instance_, nullptr);
  }
  Painter(const Painter&) = delete;
  Painter& operator=(const Painter&) = delete;

  // Returns when the frame is drawn.
  void draw() {
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    check(vkQueueSubmit(queue_, 1, &submit, fence_), "vkQueueSubmit");
    check(vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    check(vkResetFences(device_, 1, &fence_), "vkResetFences");
  }

 private:
  static constexpr VkExtent3D kPicture = {320, 180, 1}, kScreen = {1280, 720, 1};

  void find_device(const std::string& name) {
    uint32_t count = 16;
    std::array<VkPhysicalDevice, 16> devices;
    vkEnumeratePhysicalDevices(instance_, &count, devices.data());
    for (uint32_t i = 0; i < count; ++i) {
      VkPhysicalDeviceProperties properties;
      vkGetPhysicalDeviceProperties(devices[i], &properties);
      if (properties.deviceName == name) physical_ = devices[i];
    }
    if (!physical_) throw std::runtime_error("no device is called " + name);
    std::array<VkQueueFamilyProperties, 16> families;
    count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
    const auto draws = [](const VkQueueFamilyProperties& one) { return one.queueFlags & VK_QUEUE_GRAPHICS_BIT; };
    const auto end = families.begin() + count, family = std::find_if(families.begin(), end, draws);
    if (family == end) throw std::runtime_error(name + " does not draw");
    family_ = static_cast<uint32_t>(family - families.begin());
    const float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = family_;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo device = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
    check(vkCreateDevice(physical_, &device, nullptr, &device_), "vkCreateDevice");
    vkGetDeviceQueue(device_, family_, 0, &queue_);
  }

  VkImage make_image(VkExtent3D extent) {
    VkImageCreateInfo info = {VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_R8G8B8A8_UNORM;
    info.extent = extent;
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    VkImage image;
    check(vkCreateImage(device_, &info, nullptr, &image), "vkCreateImage");
    images_.push_back(image);
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(device_, image, &needs);
    VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    memory.allocationSize = needs.size;
    while (!(needs.memoryTypeBits >> memory.memoryTypeIndex & 1)) ++memory.memoryTypeIndex;
    VkDeviceMemory held;
    check(vkAllocateMemory(device_, &memory, nullptr, &held), "vkAllocateMemory");
    memories_.push_back(held);
    check(vkBindImageMemory(device_, image, held, 0), "vkBindImageMemory");
    return image;
  }

  void make_commands() {
    const VkImage picture = make_image(kPicture), screen = make_image(kScreen);
    VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    check(vkCreateFence(device_, &fence, nullptr, &fence_), "vkCreateFence");
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool.queueFamilyIndex = family_;
    check(vkCreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.commandBufferCount = 1;
    check(vkAllocateCommandBuffers(device_, &allocate, &commands_), "vkAllocateCommandBuffers");
    VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    const VkImageSubresourceRange all = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    const auto barrier = [&](VkImage image, VkImageLayout from) {
      VkImageMemoryBarrier one = {VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
      one.srcAccessMask = one.dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT;
      one.oldLayout = from;
      one.newLayout = VK_IMAGE_LAYOUT_GENERAL;
      one.srcQueueFamilyIndex = one.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
      one.image = image;
      one.subresourceRange = all;
      vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr, 0,
                           nullptr, 1, &one);
    };
    for (const VkImage image : {picture, screen}) barrier(image, VK_IMAGE_LAYOUT_UNDEFINED);
    const VkClearColorValue colour = {{0.2f, 0.4f, 0.6f, 1}};
    vkCmdClearColorImage(commands_, picture, VK_IMAGE_LAYOUT_GENERAL, &colour, 1, &all);
    VkImageBlit blit = {};
    blit.srcSubresource = blit.dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    blit.srcOffsets[1] = {static_cast<int32_t>(kPicture.width), static_cast<int32_t>(kPicture.height), 1};
    blit.dstOffsets[1] = {static_cast<int32_t>(kScreen.width), static_cast<int32_t>(kScreen.height), 1};
    for (const VkImage image : {picture, screen}) barrier(image, VK_IMAGE_LAYOUT_GENERAL);
    vkCmdBlitImage(commands_, picture, VK_IMAGE_LAYOUT_GENERAL, screen, VK_IMAGE_LAYOUT_GENERAL, 1, &blit,
                   VK_FILTER_NEAREST);
    check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
  }

  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  std::vector<VkImage> images_;
  std::vector<VkDeviceMemory> memories_;
};

// Chats on a thread of its own until it is destroyed.
class Chat {
 public:
  Chat(const weft::api::Model& model, weft_policy policy, float share)
      : session_(model, 0, WEFT_TYPE_FILE, policy), prompt_(model.apply_chat_template({{"user", "tell me a story"}})) {
    if (policy == WEFT_POLICY_POLITE) session_.set_duty(share);
    answer(4);  // compiles
    session_.reset();
    thread_ = std::thread([this] {
      while (!ended_) answer(200);
    });
  }
  ~Chat() {
    ended_ = true;
    session_.cancel();
    thread_.join();
  }
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;
  uint64_t tokens() const { return tokens_; }

 private:
  void answer(uint32_t tokens) {
    session_.prompt(prompt_);
    const auto count = [this](std::uint32_t, std::string_view) {
      ++tokens_;
      return !ended_;
    };
    session_.generate(tokens, count, true);
  }

  weft::api::Session session_;
  std::vector<std::uint32_t> prompt_;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> tokens_ = 0;
  std::thread thread_;
};

// Draws for so long and prints how long the frames took.
void measure(Painter& painter, const char* beside, double seconds, const Chat* chat) {
  std::vector<double> took;
  const uint64_t before = chat ? chat->tokens() : 0;
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point next = begin; Clock::now() - begin < std::chrono::duration<double>(seconds);) {
    std::this_thread::sleep_until(next);
    const Clock::time_point start = Clock::now();
    painter.draw();
    took.push_back(Milliseconds(Clock::now() - start).count());
    next = std::max(next + kFrame, Clock::now());
  }
  std::sort(took.begin(), took.end());
  const double all = Milliseconds(Clock::now() - begin).count() / 1e3;
  std::printf("%-22s %6.1f %9.1f %9.1f %9.1f %10.1f\n", beside, static_cast<double>(took.size()) / all,
              took[took.size() / 2], took[took.size() * 95 / 100], took.back(),
              chat ? static_cast<double>(chat->tokens() - before) / all : 0);
}

}  // namespace

int main(int argc, char** argv) try {
  const weft::api::Model model(argc > 1 ? argv[1] : "");
  const double seconds = argc > 2 ? std::atof(argv[2]) : 3;
  Painter painter(model.info().device);
  painter.draw();  // the first one may compile
  std::printf("%s\n%-22s %6s %9s %9s %9s %10s\n", model.info().device, "beside the frames", "fps", "median ms",
              "95 % ms", "most ms", "tokens/s");
  measure(painter, "nothing", seconds, nullptr);
  struct {
    const char* name;
    weft_policy policy;
    float share;
  } const kinds[] = {{"throughput", WEFT_POLICY_THROUGHPUT, 1},
                     {"polite", WEFT_POLICY_POLITE, 1},
                     {"polite, share 0.5", WEFT_POLICY_POLITE, 0.5f},
                     {"polite, share 0.2", WEFT_POLICY_POLITE, 0.2f}};
  for (const auto& kind : kinds) {
    const Chat chat(model, kind.policy, kind.share);
    measure(painter, kind.name, seconds, &chat);
  }
} catch (const weft::api::Failure& failure) {
  std::fprintf(stderr, "%s\n%s\n", failure.what(), failure.hint().c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
