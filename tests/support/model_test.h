// Models for tests: random ones written to a temporary folder, real ones from ../shared and from the user's cache.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "session/session.h"
#include "support/gpu_test.h"
#include "support/model_maker.h"

namespace weft::test {

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Loads a model file or folder onto a device.
std::unique_ptr<Model> load_model(const std::shared_ptr<Device>& device, const std::filesystem::path& path,
                                  const DeviceFormats& formats);

// ../shared (or $WEFT_SHARED) if it exists.
std::optional<std::filesystem::path> shared_folder();

// A real model that `./run model NAME` has put into the user's cache; none if it is not there.
std::optional<std::filesystem::path> real_model(const std::string& name);

Sampling greedy();
// Generates up to `count` tokens after a prompt, stop tokens ignored.
std::vector<uint32_t> generate(Session& session, const std::vector<uint32_t>& prompt, uint32_t count);

// Some ids of a vocabulary, the same at every call.
std::vector<uint32_t> some_ids(uint32_t count, uint32_t vocab);

// Kullback and Leibler's divergence of the second logits' softmax from the first's, in nats.
double divergence(const std::vector<double>& want, const std::vector<double>& got);

}  // namespace weft::test
