// Models by name: `weft pull` (pull.cpp) and `./run model` (fetch_model.py) write them to the user's cache.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common.h"
#include "models.h"
#include "suggest.h"

namespace weft::cli {

namespace fs = std::filesystem;

// Beside the pipeline cache (runtime/gpu/pipeline_cache.cpp).
fs::path models_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  fs::path cache;
  if (std::getenv("WEFT_CACHE_DIR"))
    cache = variable("WEFT_CACHE_DIR");
  else if (!variable("XDG_CACHE_HOME").empty())
    cache = variable("XDG_CACHE_HOME") + "/weft";
  else if (!variable("HOME").empty())
    cache = variable("HOME") + "/.cache/weft";
  return cache.empty() ? cache : cache / "models";
}

namespace {

// The source in the note that `weft pull` left beside a model; "": nothing is known.
std::string source_of(const fs::path& folder, const std::string& name) {
  std::ifstream file(folder / (name + ".json"));
  const Json note = Json::parse(file, nullptr, false);
  return note.is_object() && note.contains("source") && note["source"].is_string() ? note["source"].get<std::string>()
                                                                                   : "";
}

std::optional<KeptModel> folder_model(const fs::path& folder, const std::string& name) {
  KeptModel model = {name, {}, source_of(folder, name), 0};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / name, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    model.bytes += entry.file_size(ignored);
    if (entry.path().extension() == ".gguf" && (model.path.empty() || entry.path() < model.path))
      model.path = entry.path();
  }
  if (fs::exists(folder / name / "config.json", ignored)) model.path = folder / name;
  if (model.path.empty()) return {};
  return model;
}

}  // namespace

std::vector<KeptModel> kept_models() {
  const fs::path folder = models_folder();
  std::vector<KeptModel> models;
  if (folder.empty()) return models;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with('.')) continue;  // what is being downloaded
    if (entry.is_directory(ignored)) {
      if (const auto model = folder_model(folder, file)) models.push_back(*model);
    } else if (entry.path().extension() == ".gguf") {
      const std::string name = entry.path().stem().string();
      models.push_back({name, entry.path(), source_of(folder, name), entry.file_size(ignored)});
    }
  }
  std::ranges::sort(models, {}, &KeptModel::name);
  return models;
}

std::string nearest_models(const std::string& name) {
  std::vector<std::string> names;
  for (const KnownModel& known : known_models()) names.emplace_back(known.name);
  for (const KeptModel& kept : kept_models())
    if (!known_model(kept.name)) names.push_back(kept.name);
  const std::string meant = did_you_mean(nearest(name, names));
  return meant + (meant.empty() ? "" : " ") + "weft models lists the models by name";
}

std::string how_to_get(const std::string& name) {
  const KnownModel* known = known_model(name);
  if (!known || *known->source != '\0') return "weft pull " + name + " downloads it";
  for (const KnownModel& other : known_models())  // the same family, where weft pull finds it
    if (*other.source != '\0' && std::string_view(other.name).starts_with(name + "-"))
      return format("weft pull %s downloads such a model", other.name);
  return "weft models lists the models that weft pull downloads";
}

std::string model_path(const std::string& model) {
  std::error_code ignored;
  const bool file = model.find('/') != std::string::npos || fs::path(model).extension() == ".gguf";
  const bool web = model.starts_with("hf.co/") || model.starts_with("https://");
  if (model.empty() || fs::exists(model, ignored) || (file && !web)) return model;
  for (const KeptModel& kept : kept_models())
    if (kept.name == model || (web && kept.source == model)) return kept.path.string();
  if (web || known_model(model))
    throw api::Failure(WEFT_NOT_FOUND, "this model is not in the cache", model, how_to_get(model));
  throw api::Failure(WEFT_NOT_FOUND, "there is no file and no model of this name", model, nearest_models(model));
}

std::string model_name(const std::string& model) {
  if (model.empty()) return "pocket";
  fs::path path = fs::path(model).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "folder/"
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

}  // namespace weft::cli
