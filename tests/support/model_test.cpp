#include "support/model_test.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "gpu/pipeline_cache.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

// Initialized before main(), which gives the tests another WEFT_CACHE_DIR.
const std::optional<std::filesystem::path> g_user_cache = user_cache_folder();

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<Model> load_model(const std::shared_ptr<Device>& device, const std::filesystem::path& path,
                                  const DeviceFormats& formats) {
  const ModelFile file = open_model(path);
  Config config = read_config(file);
  Weights weights = load_weights(device, file, config, formats, [](float) {});
  return std::unique_ptr<Model>(new Model{device, config, std::move(weights)});
}

std::optional<std::filesystem::path> shared_folder() {
  const char* chosen = std::getenv("WEFT_SHARED");
  const std::filesystem::path folder =
      chosen ? std::filesystem::path(chosen) : source_folder().parent_path() / "shared";
  if (!std::filesystem::is_directory(folder / "models")) return std::nullopt;
  return folder;
}

std::optional<std::filesystem::path> real_model(const std::string& name) {
  if (!g_user_cache) return std::nullopt;
  const std::filesystem::path path = *g_user_cache / "models" / (name + ".gguf");
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

Sampling greedy() {
  Sampling sampling;
  sampling.temperature = 0;
  return sampling;
}

std::vector<uint32_t> generate(Session& session, const std::vector<uint32_t>& prompt, uint32_t count) {
  session.prompt(prompt);
  std::vector<uint32_t> ids;
  session.generate(count, true, [&](uint32_t id) {
    ids.push_back(id);
    return true;
  });
  return ids;
}

std::vector<uint32_t> some_ids(uint32_t count, uint32_t vocab) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = (i * 2654435761u >> 7) % vocab;
  return ids;
}

double divergence(const std::vector<double>& want, const std::vector<double>& got) {
  const auto log_softmax = [](const std::vector<double>& logits) {
    const double peak = *std::ranges::max_element(logits);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - peak);
    return std::pair(logits, peak + std::log(sum));
  };
  const auto [p, p_total] = log_softmax(want);
  const auto [q, q_total] = log_softmax(got);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i] - p_total) * (p[i] - p_total - q[i] + q_total);
  return sum;
}

}  // namespace weft::test
