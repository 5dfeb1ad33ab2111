#include "support/model_test.h"

#include <stdlib.h>

#include <cstdlib>

namespace weft::test {

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
                                  Format format) {
  const ModelFile file = open_model(path);
  Config config = read_config(file);
  Weights weights = load_weights(device, file, config, format, [](float) {});
  return std::unique_ptr<Model>(new Model{device, config, format, std::move(weights)});
}

std::optional<std::filesystem::path> shared_folder() {
  const char* chosen = std::getenv("WEFT_SHARED");
  const std::filesystem::path folder =
      chosen ? std::filesystem::path(chosen) : std::filesystem::path(WEFT_SOURCE_DIR).parent_path() / "shared";
  if (!std::filesystem::is_directory(folder / "models")) return std::nullopt;
  return folder;
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

}  // namespace weft::test
