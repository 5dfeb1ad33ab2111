#include "gpu/pipeline_cache.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/private_file.h"

namespace weft {
namespace {

struct Envelope {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};
constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'P', 'C', '0', '1'};

// The header the Vulkan specification puts at the start of every pipeline cache (VkPipelineCacheHeaderVersionOne).
struct VulkanHeader {
  uint32_t bytes, version, vendor_id, device_id;
  uint8_t uuid[16];
};

// FNV-1a, 64 bits (Fowler, Noll, Vo): enough to tell a torn file.
uint64_t checksum(std::span<const std::byte> data) {
  uint64_t hash = 14695981039346656037ull;
  for (const std::byte value : data) hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211ull;
  return hash;
}

std::mutex g_folder_mutex;
std::optional<std::filesystem::path> g_folder;  // the application's

}  // namespace

void set_user_cache_folder(std::optional<std::filesystem::path> folder) {
  const std::lock_guard lock(g_folder_mutex);
  g_folder = std::move(folder);
}

std::optional<std::filesystem::path> user_cache_folder() {
  {
    const std::lock_guard lock(g_folder_mutex);
    if (g_folder) return g_folder->empty() ? std::nullopt : g_folder;
  }
  if (const char* chosen = std::getenv("WEFT_CACHE_DIR")) {
    if (!*chosen) return std::nullopt;
    return chosen;
  }
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::filesystem::path(cache) / "weft";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "weft";
  return std::nullopt;
}

std::optional<std::filesystem::path> private_cache_folder() {
  std::optional<std::filesystem::path> folder = user_cache_folder();
  if (folder && !is_private_folder(*folder)) folder.reset();
  return folder;
}

std::optional<std::filesystem::path> pipeline_cache_path(const Caps& caps) {
  const std::optional<std::filesystem::path> folder = private_cache_folder();
  if (!folder) return std::nullopt;
  char file[80];
  std::snprintf(file, sizeof file, "pipelines-%04x-%04x-%08x-%02x%02x%02x%02x.bin", caps.vendor_id, caps.device_id,
                caps.driver_version, caps.cache_uuid[0], caps.cache_uuid[1], caps.cache_uuid[2], caps.cache_uuid[3]);
  return *folder / file;
}

std::vector<std::byte> seal_pipeline_cache(std::span<const std::byte> data) {
  Envelope envelope = {};
  std::memcpy(envelope.magic, kMagic, sizeof kMagic);
  envelope.bytes = data.size();
  envelope.checksum = checksum(data);
  std::vector<std::byte> file(sizeof envelope + data.size());
  std::memcpy(file.data(), &envelope, sizeof envelope);
  if (!data.empty()) std::memcpy(file.data() + sizeof envelope, data.data(), data.size());
  return file;
}

std::optional<std::vector<std::byte>> open_pipeline_cache(std::span<const std::byte> file, const Caps& caps) {
  Envelope envelope;
  if (file.size() < sizeof envelope + sizeof(VulkanHeader)) return std::nullopt;
  std::memcpy(&envelope, file.data(), sizeof envelope);
  const std::span<const std::byte> data = file.subspan(sizeof envelope);
  if (std::memcmp(envelope.magic, kMagic, sizeof kMagic) != 0 || envelope.bytes != data.size() ||
      envelope.checksum != checksum(data))
    return std::nullopt;
  VulkanHeader header;
  std::memcpy(&header, data.data(), sizeof header);
  if (header.version != 1 || header.vendor_id != caps.vendor_id || header.device_id != caps.device_id ||
      std::memcmp(header.uuid, caps.cache_uuid, sizeof header.uuid) != 0)
    return std::nullopt;
  return std::vector<std::byte>(data.begin(), data.end());
}

}  // namespace weft
