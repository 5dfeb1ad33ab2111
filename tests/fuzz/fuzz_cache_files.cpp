// The files that Weft keeps in its cache folder. Input: 'p' (pipelines), 't' (tuning) or 's' (statistics of states),
// then the file; in capitals, what the file has between its heading and its checksum.
#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "fuzz_support.h"
#include "gpu/pipeline_cache.h"
#include "gpu/tuning.h"
#include "memory_file.h"
#include "run/hidden_states.h"

namespace {

constexpr uint32_t kWidth = 8;  // of states

// A device with every choice that there is.
weft::Caps device() {
  weft::Caps caps;
  caps.kind = weft::DeviceKind::discrete;
  caps.vendor_id = 0x10de;
  caps.device_id = 0x2503;
  caps.driver_version = 7;
  caps.api_version = 1u << 22 | 3u << 12;
  caps.max_range = 1 << 30;
  caps.max_texels = 1 << 27;
  caps.max_allocation = 1 << 30;
  caps.max_allocations = 4096;
  caps.max_bindings = 16;
  caps.offset_alignment = 16;
  caps.max_shared = 48 << 10;
  caps.max_threads = 1024;
  caps.max_groups = 65535;
  caps.memory = 1 << 30;
  caps.subgroup = caps.shuffle = caps.full_subgroups = caps.fp16 = caps.matrices = true;
  caps.subgroup_size = 32;
  caps.matrix_side = 16;
  for (uint8_t& byte : caps.cache_uuid) byte = 9;
  return caps;
}

void read_pipelines(std::span<const std::byte> file, const weft::Caps& caps) {
  const auto data = weft::open_pipeline_cache(file, caps);
  if (!data) return;
  const std::vector<std::byte> again = weft::seal_pipeline_cache(*data);
  if (!std::ranges::equal(again, file)) std::abort();
}

void read_tuned(std::string_view text, const weft::Caps& caps) {
  const weft::Plan defaults = weft::make_plan(caps);
  const auto plan = weft::read_tuning(text, caps, defaults);
  if (plan && weft::write_tuning(caps, *plan) != text) std::abort();
}

// With the first and the last line that it must have.
std::string sealed_tuning(std::string_view choices, const weft::Caps& caps) {
  const std::string whole = weft::write_tuning(caps, weft::make_plan(caps));
  const std::string heading = whole.substr(0, whole.find('\n', whole.find('\n') + 1) + 1);
  uint64_t sum = 14695981039346656037ull;  // FNV-1a, as tuning.cpp has it
  std::string text = heading + std::string(choices);
  for (const char c : text) sum = (sum ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  char closing[40];
  std::snprintf(closing, sizeof closing, "sum %016llx\n", static_cast<unsigned long long>(sum));
  return text + closing;
}

void read_states(const weft::test::MemoryFile& file) {
  const auto states = weft::read_statistics(file.path(), kWidth);
  if (!states) return;
  for (const float value : states->variance)
    if (!(value >= 0)) std::abort();
}

// The writer gives them their heading and checksum.
void read_sealed_states(std::string_view bytes) {
  static const std::filesystem::path path = weft::test::scratch_folder() / "states.bin";
  weft::StateStatistics states = {std::vector<float>(kWidth), std::vector<float>(kWidth)};
  const size_t half = kWidth * sizeof(float);
  std::memcpy(states.mean.data(), bytes.data(), std::min(bytes.size(), half));
  if (bytes.size() > half) std::memcpy(states.variance.data(), &bytes[half], std::min(bytes.size() - half, half));
  weft::write_statistics(path, states);
  static_cast<void>(weft::read_statistics(path, kWidth));
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  static const Caps caps = device();
  if (size == 0) return;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  expect_answer_or_error([&] {
    switch (data[0]) {
      case 'p':
        return read_pipelines(std::as_bytes(std::span(rest)), caps);
      case 'P':
        return read_pipelines(seal_pipeline_cache(std::as_bytes(std::span(rest))), caps);
      case 't':
        return read_tuned(rest, caps);
      case 'T':
        return read_tuned(sealed_tuning(rest, caps), caps);
      case 's':
        return read_states(test::MemoryFile(rest));
      case 'S':
        return read_sealed_states(rest);
      default:
        return;
    }
  });
}
