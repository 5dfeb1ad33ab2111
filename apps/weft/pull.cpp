// weft pull, models and rm: models by name, in the user's cache.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <weft/probe.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>

#include "common.h"
#include "hub.h"
#include "models.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

fs::path require_folder() {
  const fs::path folder = models_folder();
  if (folder.empty())
    throw api::Failure(WEFT_NOT_FOUND, "there is no folder for models", "cache", "set WEFT_CACHE_DIR to one, or HOME");
  return folder;
}

// One download of a model at a time: the lock goes with the process.
class PullLock {
 public:
  PullLock(const fs::path& path, const std::string& name) : file_(open(path.c_str(), O_RDWR | O_CREAT, 0644)) {
    if (file_ < 0) throw api::Failure(WEFT_IO, std::strerror(errno), path.string());
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    close(file_);
    throw api::Failure(WEFT_IO, "another weft pull is downloading it", name);
  }
  ~PullLock() { close(file_); }
  PullLock(const PullLock&) = delete;
  PullLock& operator=(const PullLock&) = delete;

 private:
  int file_;
};

void require_space(const fs::path& folder, const fs::path& work, const RemoteModel& model) {
  std::uint64_t missing = 0;
  std::error_code ignored;
  for (const RemoteFile& file : model.files) {
    std::uint64_t here = 0;
    for (const char* end : {"", ".part"}) {
      const auto size = fs::file_size((work / file.name).string() + end, ignored);
      if (!ignored) here = std::max<std::uint64_t>(here, size);
    }
    missing += file.bytes - std::min(here, file.bytes);
  }
  const fs::space_info space = fs::space(folder, ignored);
  if (!ignored && space.available < missing)
    throw api::Failure(WEFT_IO,
                       human_bytes(static_cast<double>(missing)) + " are needed, and " +
                           human_bytes(static_cast<double>(space.available)) + " are free",
                       folder.string());
}

// Downloads into a hidden folder, which is renamed when all is there.
void bring(const RemoteModel& model, const fs::path& folder, const Reference& reference) {
  const fs::path work = folder / (".pulling-" + model.name);
  std::error_code failed;
  fs::create_directories(work, failed);
  if (failed) throw api::Failure(WEFT_IO, failed.message(), work.string());
  const PullLock lock(work / ".lock", model.name);
  require_space(folder, work, model);
  std::uint64_t total = 0, done = 0;
  for (const RemoteFile& file : model.files) total += file.bytes;
  ProgressBar bar("downloading " + model.name, {static_cast<double>(total), "bytes"});
  for (const RemoteFile& file : model.files) {
    const fs::path path = work / file.name;
    fs::create_directories(path.parent_path(), failed);
    if (!fs::exists(path, failed))
      fetch_file(file, model.credentials, path, [&](std::uint64_t bytes, std::uint64_t all) {
        // A URL's size is known when its answer comes.
        const std::uint64_t most = total > 0 ? total : all;
        if (most > 0) bar.update(static_cast<double>(done + bytes) / static_cast<double>(most));
      });
    done += file.bytes;
  }
  {
    std::ofstream note(folder / (model.name + ".json"));
    note << Json{{"source", reference.source}}.dump() << '\n';
  }
  const bool single = model.files.size() == 1 && model.files[0].name == model.name + ".gguf";
  if (!single) fs::remove(work / ".lock", failed);
  if (single)
    fs::rename(work / model.files[0].name, folder / model.files[0].name, failed);
  else
    fs::rename(work, folder / model.name, failed);
  if (failed) throw api::Failure(WEFT_IO, failed.message(), (folder / model.name).string());
  if (single) fs::remove_all(work, failed);
}

const KeptModel* find_kept(const std::vector<KeptModel>& models, const std::string& name, const std::string& source) {
  const auto found = std::ranges::find_if(models, [&](const KeptModel& model) {
    return model.name == name || (!source.empty() && model.source == source);
  });
  return found == models.end() ? nullptr : &*found;
}

void pull(const std::string& wanted) {
  const fs::path folder = require_folder();
  const KnownModel* known = known_model(wanted);
  if (known && *known->source == '\0' && find_kept(kept_models(), wanted, "")) {
    std::cout << find_kept(kept_models(), wanted, "")->path.string() << '\n';
    return;
  }
  const Reference reference = parse_reference(wanted);
  std::vector<KeptModel> kept = kept_models();
  const KeptModel* model = find_kept(kept, known ? wanted : "", reference.source);
  if (!model) {
    RemoteModel remote = find_remote(reference);
    if (known) {  // it gets the catalogue's name
      if (remote.files.size() == 1) remote.files[0].name = wanted + ".gguf";
      remote.name = wanted;
    }
    if (find_kept(kept, remote.name, ""))
      throw api::Failure(WEFT_INVALID_ARGUMENT, "there is a model of this name from elsewhere", remote.name,
                         "weft rm " + remote.name + " removes it");
    std::uint64_t bytes = 0;
    bool checked = true;
    for (const RemoteFile& file : remote.files) {
      bytes += file.bytes;
      checked &= !file.sha256.empty() || !file.git_sha1.empty();
    }
    std::cerr << remote.name << ", " << (bytes > 0 ? human_bytes(static_cast<double>(bytes)) : "of unknown size")
              << ", from " << reference.source << (known ? std::string(", licence ") + known->licence : "") << '\n';
    if (!checked) std::cerr << "no checksum is known for it: what arrives is not checked\n";
    bring(remote, folder, reference);
    kept = kept_models();
    model = find_kept(kept, remote.name, "");
  }
  if (!model) throw api::Failure(WEFT_BAD_FILE, "what was downloaded is no model", wanted);
  std::cerr << "weft chat -m " << model->name << " talks with it\n";
  std::cout << model->path.string() << '\n';
}

// Removes what a download that broke off has left. False if there is nothing.
bool remove_partial(const fs::path& folder, const std::string& name) {
  const fs::path work = folder / (".pulling-" + name);
  std::error_code failed;
  if (name.find('/') != std::string::npos || !fs::exists(work, failed)) return false;
  const PullLock lock(work / ".lock", name);
  fs::remove_all(work, failed);
  if (failed) throw api::Failure(WEFT_IO, failed.message(), work.string());
  return true;
}

void remove(const std::vector<std::string>& names) {
  const fs::path folder = require_folder();
  for (const std::string& name : names) {
    const bool partial = remove_partial(folder, name);
    const std::vector<KeptModel> kept = kept_models();
    const KeptModel* model = find_kept(kept, name, name);
    if (!model && partial) {
      std::cerr << "removed what was downloaded of " << name << '\n';
      continue;
    }
    if (!model) throw api::Failure(WEFT_NOT_FOUND, "there is no such model in the cache", name, nearest_models(name));
    std::error_code failed;
    const bool single = model->path == folder / (model->name + ".gguf");
    if (single)
      fs::remove(model->path, failed);
    else
      fs::remove_all(folder / model->name, failed);
    if (failed) throw api::Failure(WEFT_IO, failed.message(), model->path.string());
    fs::remove(folder / (model->name + ".json"), failed);
    std::cerr << "removed " << model->name << ", " << human_bytes(static_cast<double>(model->bytes)) << '\n';
  }
}

// The report of `weft devices -m` on a kept model, or on `bytes` alone; null: nothing is known.
Json probe_of(const char* file, std::uint64_t bytes) {
  weft_probe_report report = {};
  char* text = nullptr;
  weft_error error = {};
  if (weft_probe(file, bytes, nullptr, nullptr, &report, sizeof report, &text, &error) != WEFT_OK) return nullptr;
  const Json probe = Json::parse(api::detail::take(text));
  if (report.device != WEFT_OK || (file != nullptr && report.model != WEFT_OK)) return nullptr;
  return probe;
}

// Memory that a model of the catalogue needs, from its parameters and the type in its source: bytes of a parameter in
// files of that type, and 15% for contexts and scratch memory.
std::uint64_t estimated_bytes(const KnownModel& model) {
  char unit = 'M';
  double count = 0;
  std::sscanf(model.parameters, "%lf %c", &count, &unit);
  const std::string_view source = model.source;
  const double each = source.ends_with(":Q4_K_M")                   ? 0.65
                      : source.ends_with(":MXFP4")                  ? 0.58
                      : source.ends_with(":Q8_0") || source.empty() ? 1.07
                                                                    : 2;
  return static_cast<std::uint64_t>(count * (unit == 'B' ? 1e9 : 1e6) * each * 1.15);
}

void list(bool json) {
  Json models = Json::array();
  const std::vector<KeptModel> kept = kept_models();
  const Json device = probe_of(nullptr, 1);  // opened once, not for each model of the catalogue
  const auto add = [&](const std::string& name, const KnownModel* known, const Json& own) {
    models.push_back({{"name", name},
                      {"parameters", known ? Json(known->parameters) : Json()},
                      {"licence", known ? Json(known->licence) : Json()}});
    models.back().update(own);
  };
  for (const KeptModel& model : kept) {
    const Json probe = probe_of(model.path.c_str(), 0);
    add(model.name, known_model(model.name),
        {{"path", model.path.string()},
         {"bytes", model.bytes},
         {"needed_bytes", probe.is_null() ? Json() : probe["needed_bytes"]},
         {"estimated", false},
         {"fits", probe.is_null() ? Json() : probe["fits"]},
         {"source", model.source}});
  }
  for (const KnownModel& known : known_models()) {
    if (find_kept(kept, known.name, known.source)) continue;
    if (*known.source == '\0') continue;  // weft pull cannot download it
    const std::uint64_t needed = estimated_bytes(known);
    const Json free = device.is_null() ? Json() : device["free_bytes"];
    add(known.name, &known,
        {{"path", nullptr},
         {"bytes", nullptr},
         {"needed_bytes", needed},
         {"estimated", true},
         {"fits", free.is_null() ? Json() : Json(needed <= free.get<std::uint64_t>())},
         {"source", known.source}});
  }
  if (json) return print_json({{"folder", models_folder().string()}, {"models", models}});
  const auto size_of = [](const Json& bytes) { return bytes.is_null() ? "" : human_bytes(bytes.get<double>()); };
  const auto text_of = [](const Json& text) { return text.is_null() ? "" : text.get<std::string>(); };
  std::cout << format("%-24s %10s  %10s  %11s  %-4s  %s\n", "NAME", "PARAMETERS", "ON DISK", "MEMORY", "FITS",
                      "LICENCE");
  for (const Json& model : models) {
    const std::string memory = size_of(model["needed_bytes"]);
    const char* fits = model["fits"].is_null() ? "?" : model["fits"].get<bool>() ? "yes" : "no";
    std::cout << format("%-24s %10s  %10s  %11s  %-4s  %s\n", text_of(model["name"]).c_str(),
                        text_of(model["parameters"]).c_str(), size_of(model["bytes"]).c_str(),
                        (model["estimated"].get<bool>() ? "~" + memory : memory).c_str(), fits,
                        text_of(model["licence"]).c_str());
  }
  std::cerr << "weft pull NAME downloads one; any other: weft pull hf.co/OWNER/REPO[:TYPE]\n";
}

}  // namespace

void add_models(CLI::App& app) {
  {
    auto name = std::make_shared<std::string>();
    CLI::App* command =
        app.add_subcommand("pull",
                           "Download a model to the user's cache, where -m finds it by its name, and print its path.\n"
                           "MODEL: a name of `weft models`, hf.co/OWNER/REPO[:TYPE] (TYPE: of a GGUF file, such as "
                           "Q4_K_M), or the URL of\n"
                           "a GGUF file. What breaks off goes on the next time; checksums are checked. HF_TOKEN opens "
                           "models that need an\n"
                           "account, HF_ENDPOINT names another hub");
    command->add_option("MODEL", *name, "the model")->required();
    command->callback([name] { pull(*name); });
  }
  {
    auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("models", "List the models in the user's cache, and those known by name");
    add_json_option(command, *json);
    command->callback([json] { list(*json); });
  }
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("rm", "Remove models from the user's cache");
  command->add_option("NAME", *names, "their names")->required();
  command->callback([names] { remove(*names); });
}

}  // namespace weft::cli
