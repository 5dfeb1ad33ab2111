#include "gpu/tuning.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "gpu/pipeline_cache.h"
#include "gpu/plan_fields.h"

namespace weft {
namespace {

// To be raised when kernels change so much that old values mislead.
constexpr int kVersion = 4;
constexpr size_t kMostBytes = 4096;

// The default's powers of two neighbours within [least, most].
std::vector<uint32_t> around(uint32_t value, uint32_t least, uint32_t most) {
  std::vector<uint32_t> list;
  for (const uint32_t candidate : {value / 2, value, value * 2})
    if (candidate == value || (candidate >= least && candidate <= most)) list.push_back(candidate);
  return list;
}

const Tunable kTunables[] = {
    // A CPU has no use for split rows, and a workgroup has 64 x split threads.
    {"split", &Plan::split,
     [](const Caps& caps, const Plan& plan) {
       if (caps.kind == DeviceKind::cpu) return std::vector<uint32_t>{plan.split};
       return around(plan.split, 1, std::min(caps.max_threads, 256u) / 64);
     }},
    // Lanes that read texels share the scales of four rows each.
    {"row_tiles", &Plan::row_tiles,
     [](const Caps&, const Plan& plan) { return around(plan.row_tiles, plan.texel_products ? 4 : 1, 4); }},
    {"block_tokens", &Plan::block_tokens,
     [](const Caps&, const Plan& plan) {
       if (plan.tile_tokens > 0) return std::vector<uint32_t>{plan.block_tokens};  // prompts go by tiles
       return around(plan.block_tokens, 4, 16);
     }},
    // Not every compiler that has matrices makes them faster than the same sums by threads.
    {"matrix_side", &Plan::matrix_side,
     [](const Caps&, const Plan& plan) {
       if (plan.matrix_side == 0) return std::vector<uint32_t>{0};
       return std::vector<uint32_t>{0, plan.matrix_side};
     }},
    {"tile_tokens", &Plan::tile_tokens,
     [](const Caps&, const Plan& plan) {
       if (plan.tile_tokens == 0) return std::vector<uint32_t>{0};
       return around(plan.tile_tokens, 16, 64);
     }},
    {"reduce_threads", &Plan::reduce_threads,
     [](const Caps& caps, const Plan& plan) {
       return around(plan.reduce_threads, 64, std::min(caps.max_threads, 256u));
     }},
};

// FNV-1a, 64 bits, as pipeline_cache.cpp has it.
uint64_t checksum(std::string_view text) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

// First lines of a file: the kernels, device and driver that it is for.
std::string heading(const Caps& caps) {
  char text[160];
  std::snprintf(text, sizeof text, "weft tune %d\ndevice %04x-%04x driver %08x-", kVersion, caps.vendor_id,
                caps.device_id, caps.driver_version);
  std::string result = text;
  for (const uint8_t byte : caps.cache_uuid) {
    std::snprintf(text, sizeof text, "%02x", byte);
    result += text;
  }
  return result + "\n";
}

std::string closing(std::string_view before) {
  char text[40];
  std::snprintf(text, sizeof text, "sum %016llx\n", static_cast<unsigned long long>(checksum(before)));
  return text;
}

// Takes what is expected off the front, or is false.
bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::span<const Tunable> tunables() { return kTunables; }

std::optional<std::filesystem::path> tuning_path(const Caps& caps) {
  auto path = pipeline_cache_path(caps);
  if (!path) return path;
  std::string name = path->filename().string();
  name.replace(0, std::string_view("pipelines").size(), "tune");
  return path->replace_filename(name).replace_extension(".txt");
}

std::string write_tuning(const Caps& caps, const Plan& plan) {
  std::string text = heading(caps);
  for (const Tunable& tunable : tunables())
    text += std::string(tunable.name) + " " + std::to_string(plan.*tunable.field) + "\n";
  return text + closing(text);
}

std::optional<Plan> read_tuning(std::string_view text, const Caps& caps, const Plan& defaults) {
  if (text.size() > kMostBytes) return std::nullopt;
  std::string_view left = text;
  if (!take(left, heading(caps))) return std::nullopt;
  Plan plan = defaults;
  for (const Tunable& tunable : tunables()) {
    if (!take(left, std::string(tunable.name) + " ")) return std::nullopt;
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), value);
    const std::vector<uint32_t> candidates = tunable.candidates(caps, defaults);
    if (error != std::errc() || std::ranges::find(candidates, value) == candidates.end()) return std::nullopt;
    left.remove_prefix(static_cast<size_t>(end - left.data()));
    if (!take(left, "\n")) return std::nullopt;
    plan.*tunable.field = value;
  }
  if (text != write_tuning(caps, plan)) return std::nullopt;  // its checksum, and numbers as nobody writes them
  return plan;
}

// The plan with the values of the device's file.
static TunedPlan measured_plan(const Caps& caps) {
  const Plan defaults = make_plan(caps);
  const char* const wanted = std::getenv("WEFT_TUNE");
  if (wanted && std::string_view(wanted) == "0") return {defaults, "switched off by WEFT_TUNE=0"};
  const auto path = tuning_path(caps);
  std::error_code error;
  if (!path || !std::filesystem::exists(*path, error)) return {defaults, ""};
  try {
    const MappedFile file(*path);
    if (!file.is_private()) return {defaults, path->string() + " was ignored: others than its user may write it"};
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (const std::optional<Plan> plan = read_tuning(text, caps, defaults))
      return {*plan, "as measured: " + path->string()};
    return {defaults, path->string() + " is damaged or of another version and was ignored; weft tune writes a new one"};
  } catch (const Error& unreadable) {
    return {defaults, path->string() + " was ignored: " + unreadable.sentence()};
  }
}

TunedPlan tuned_plan(const Caps& caps) {
  TunedPlan tuned = measured_plan(caps);
  const char* const settings = std::getenv("WEFT_PLAN");
  if (!settings || !*settings) return tuned;
  set_fields(tuned.plan, caps, settings, "WEFT_PLAN");
  tuned.source += (tuned.source.empty() ? "WEFT_PLAN=" : "; WEFT_PLAN=") + std::string(settings);
  return tuned;
}

}  // namespace weft
