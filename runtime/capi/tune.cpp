// The C API: measuring what suits a device best.
#include <algorithm>

#include "base/file.h"
#include "capi/handles.h"
#include "gpu/tuning.h"
#include "ops/tune.h"

using namespace weft;
using namespace weft::capi;

static std::string report_text(const TuneResult& result, const std::filesystem::path& path) {
  JsonValue json = {{"device", result.caps.name},
                    {"driver", result.caps.driver_name + " " + result.caps.driver_info},
                    {"file", path.string()}};
  for (const Tunable& tunable : tunables()) json["chosen"][tunable.name] = result.plan.*tunable.field;
  for (const TuneTrial& trial : result.trials)
    json["trials"].push_back(
        {{"name", trial.tunable}, {"value", trial.value}, {"seconds", trial.seconds}, {"refusal", trial.refusal}});
  return json.dump();
}

weft_status weft_tune(const char* device, int (*progress)(void* user, float done), void* user, char** json,
                      weft_error* error) {
  return guard(error, [&] {
    const DeviceList devices = parse_devices(device ? device : "");
    if (devices.names.size() > 1)
      throw Error(Code::unsupported, "it names several devices, which are tuned one after the other", "device",
                  "call this for each of them");
    const std::string& selector = devices.names.front();
    // Before the search, not after it.
    const auto path = tuning_path(Device::open(selector)->caps());
    if (!path)
      throw Error(Code::io, "there is no place to keep what is chosen", "tune",
                  "set WEFT_CACHE_DIR to a folder that only its user may write, or HOME");
    make_folder(path->parent_path(), Rights::owner);
    { const AtomicFile probe(*path); }  // throws where none can be written
    const TuneResult result = tune(selector, [&](float done) {
      if (progress && progress(user, std::clamp(done, 0.0f, 1.0f)) != 0)
        throw Error(Code::cancelled, "the search was cancelled", "tune");
    });
    const std::string text = write_tuning(result.caps, result.plan);
    write_file_atomically(*path, std::as_bytes(std::span<const char>(text)), Rights::owner);
    if (json) *json = copy_string(report_text(result, *path));
  });
}
