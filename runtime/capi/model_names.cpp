// Places of models: the installed one, and those in the user's cache by name.
#include "capi/handles.h"

#include <dlfcn.h>

#include <algorithm>

#include "gpu/pipeline_cache.h"

using namespace weft;
namespace fs = std::filesystem;

namespace {

// The model installed beside the library: <prefix>/lib/libweft.so -> <prefix>/share/weft/*.gguf, the first by name.
fs::path installed_model() {
  Dl_info info = {};
  fs::path folder = "share/weft";
  // The library's folder may be lib or lib/<architecture>.
  if (dladdr(reinterpret_cast<const void*>(&weft_version), &info) && info.dli_fname) {
    std::error_code ignored;
    const fs::path library = fs::canonical(info.dli_fname, ignored).parent_path();
    for (const fs::path& prefix : {library.parent_path(), library.parent_path().parent_path()}) {
      folder = prefix / "share" / "weft";
      std::vector<fs::path> found;
      for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored))
        if (entry->path().extension() == ".gguf") found.push_back(entry->path());
      if (!found.empty()) return *std::min_element(found.begin(), found.end());
    }
    folder = library.parent_path() / "share" / "weft";
  }
  throw Error(Code::not_found, "no model was given and none is installed", folder.string(),
              "pass a GGUF file or a Hugging Face folder");
}

// A model that `weft pull` or `./run model` has put there: NAME.gguf, a folder NAME in Hugging Face's format, or one
// with the parts of a GGUF file, of which the first is loaded. Empty if nothing has this name.
fs::path cached_model(const std::string& name) {
  const std::optional<fs::path> cache = user_cache_folder();
  if (!cache) return {};
  std::error_code ignored;
  const fs::path folder = *cache / "models" / name, file = *cache / "models" / (name + ".gguf");
  if (fs::exists(file, ignored)) return file;
  if (fs::exists(folder / "config.json", ignored)) return folder;
  fs::path first;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored))
    if (entry->path().extension() == ".gguf" && (first.empty() || entry->path() < first)) first = entry->path();
  return first;
}

}  // namespace

fs::path capi::model_path(const char* path) {
  if (!path) return installed_model();
  if (!*path) throw Error(Code::not_found, "it is empty", "path", "NULL is the installed model");
  const fs::path given(path);
  std::error_code ignored;
  const bool named = given == given.filename() && given.extension() != ".gguf" && !fs::exists(given, ignored);
  const fs::path cached = named ? cached_model(path) : fs::path();
  return cached.empty() ? given : cached;
}
