// Real models by name: `./run model NAME` (fetch_model.py) writes them to the user's cache.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common.h"

namespace weft::cli {
namespace {

constexpr std::string_view kFetchable[] = {"smollm2", "gemma3-270m"};  // as fetch_model.py

// Beside the pipeline cache (runtime/gpu/pipeline_cache.cpp); empty: there is no place for it.
std::filesystem::path models_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  std::filesystem::path cache;
  if (std::getenv("WEFT_CACHE_DIR"))
    cache = variable("WEFT_CACHE_DIR");
  else if (!variable("XDG_CACHE_HOME").empty())
    cache = variable("XDG_CACHE_HOME") + "/weft";
  else if (!variable("HOME").empty())
    cache = variable("HOME") + "/.cache/weft";
  return cache.empty() ? cache : cache / "models";
}

}  // namespace

std::string model_path(const std::string& model) {
  std::error_code ignored;
  if (std::ranges::find(kFetchable, model) == std::end(kFetchable) || std::filesystem::exists(model, ignored))
    return model;
  const std::filesystem::path folder = models_folder(), path = folder / (model + ".gguf");
  if (!folder.empty() && std::filesystem::exists(path, ignored)) return path.string();
  throw api::Failure(WEFT_NOT_FOUND, "this model is not in the cache", model, "./run model " + model + " downloads it");
}

std::string model_name(const std::string& model) {
  if (model.empty()) return "pocket";
  std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "folder/"
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

}  // namespace weft::cli
