#include "run/hidden_states.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/private_file.h"
#include "gpu/pipeline_cache.h"
#include "model/fingerprint.h"
#include "run/run_text.h"

namespace weft {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'S', 'T', '0', '1'};
constexpr size_t kFirstTokens = 8;  // whose states are not like others

struct Header {
  char magic[8];
  uint64_t width;
  uint64_t checksum;  // of what follows: means, variances
};

uint64_t checksum(std::span<const std::byte> bytes) {
  Fingerprint hash;
  hash.add(bytes);
  return hash.value();
}

bool usable(const StateStatistics& states) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  return std::ranges::all_of(states.mean, is_finite) && std::ranges::all_of(states.variance, is_finite) &&
         std::ranges::all_of(states.variance, [](float value) { return value >= 0; });
}

}  // namespace

std::vector<float> hidden_states(const Model& model, std::span<const uint32_t> ids) {
  model.weights.need_all_rows("hidden states");
  const uint32_t width = model.config.width, stride = stride_of(width);
  std::vector<float> states;
  const auto norm = [](Recorder& r, const Pass& pass) {
    ops::norm(r, pass.model.config.norm(), pass.step.state, pass.a.x, pass.model.weights.final_norm, pass.a.normed,
              pass.tokens, false);
  };
  const auto read = [&](size_t, size_t count, const Pass& pass) {
    const std::vector<float> rows =
        download_as<float>(model.device, pass.a.normed.part(0, count * stride * sizeof(float)));
    for (size_t t = 0; t < count; ++t)
      states.insert(states.end(), rows.begin() + static_cast<ptrdiff_t>(t * stride),
                    rows.begin() + static_cast<ptrdiff_t>(t * stride + width));
  };
  run_text(model, ids, {.end = norm, .after = read});
  return states;
}

std::optional<StateStatistics> statistics_of(std::span<const float> states, uint32_t width) {
  const size_t all = states.size() / width, first = all > 2 * kFirstTokens ? kFirstTokens : 0;
  const double count = static_cast<double>(all - first);
  std::vector<double> mean(width), variance(width);
  for (size_t t = first; t < all; ++t)
    for (uint32_t i = 0; i < width; ++i) mean[i] += states[t * width + i] / count;
  for (size_t t = first; t < all; ++t)
    for (uint32_t i = 0; i < width; ++i) variance[i] += std::pow(states[t * width + i] - mean[i], 2) / count;
  StateStatistics statistics = {{mean.begin(), mean.end()}, {variance.begin(), variance.end()}};
  if (!usable(statistics)) return std::nullopt;
  return statistics;
}

std::optional<std::filesystem::path> statistics_path(uint64_t fingerprint) {
  const auto folder = private_cache_folder();
  if (!folder) return std::nullopt;
  char file[48];
  std::snprintf(file, sizeof file, "states-%016llx.bin", static_cast<unsigned long long>(fingerprint));
  return *folder / file;
}

std::optional<StateStatistics> read_statistics(const std::filesystem::path& path, uint32_t width) {
  const size_t bytes = size_t{width} * sizeof(float), expected = sizeof(Header) + 2 * bytes;
  const std::optional<MappedFile> file = open_private(path);
  if (!file || file->bytes().size() != expected) return std::nullopt;
  Header header;
  std::memcpy(&header, file->bytes().data(), sizeof header);
  const std::span<const std::byte> data = file->bytes().subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.width != width ||
      header.checksum != checksum(data))
    return std::nullopt;
  StateStatistics statistics = {std::vector<float>(width), std::vector<float>(width)};
  std::memcpy(statistics.mean.data(), data.data(), bytes);
  std::memcpy(statistics.variance.data(), data.data() + bytes, bytes);
  if (!usable(statistics)) return std::nullopt;
  return statistics;
}

void write_statistics(const std::filesystem::path& path, const StateStatistics& states) {
  const size_t bytes = states.mean.size() * sizeof(float);
  std::vector<std::byte> file(sizeof(Header) + 2 * bytes);
  const std::span<std::byte> data = std::span(file).subspan(sizeof(Header));
  std::memcpy(data.data(), states.mean.data(), bytes);
  std::memcpy(data.data() + bytes, states.variance.data(), bytes);
  Header header = {{}, states.mean.size(), checksum(data)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::memcpy(file.data(), &header, sizeof header);
  write_file_atomically(path, file, Rights::owner);
}

const char kStateText[] =
    "The ferry left the harbour before dawn, and two boys counted the gulls behind the ship.\n\n"
    "\"Did you bring the letters?\" he asked.\n\"I did, but three of them are wet.\"\n\n"
    "In 1969, 38 percent of the region's farms were smaller than five hectares; by 2004 it was 12 percent.\n\n"
    "How do I make tea?\n1. Boil some fresh water.\n2. Put in a spoon of leaves for each cup.\n\n"
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n\n"
    "int main(void) {\n  printf(\"%d\\n\", i * i);\n  return 0;\n}\n\n"
    "{\"name\": \"Anna\", \"age\": 31}\n\n"
    "Le chat dort sur la chaise. Could you explain why the sky is blue? Sure! Air scatters blue light more.";

}  // namespace weft
