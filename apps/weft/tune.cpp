// weft tune: measures which tile and workgroup shapes suit a device, and keeps them.
#include <iostream>

#include "common.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct TuneArgs {
  std::string device;
  bool json = false;
};

void tune(const TuneArgs& args) {
  Json report;
  {
    ProgressBar bar("measuring");
    report = Json::parse(api::tune(args.device, [&bar](float done) {
      bar.update(done);
      return true;
    }));
  }
  if (args.json) return print_json(report);
  std::cout << report["device"].get<std::string>() << ", " << report["driver"].get<std::string>() << '\n';
  for (const Json& trial : report["trials"]) {
    const std::string name = trial["name"], refusal = trial["refusal"];
    const bool chosen = report["chosen"][name] == trial["value"];
    std::cout << format("%-16s %4u ", name.c_str(), trial["value"].get<std::uint32_t>());
    if (!refusal.empty())
      std::cout << "refused: " << refusal << '\n';
    else if (trial["seconds"] == 0)
      std::cout << "is the only value here\n";
    else
      std::cout << format("%8.3f ms%s\n", trial["seconds"].get<double>() * 1e3, chosen ? "  chosen" : "");
  }
  std::cout << "kept in " << report["file"].get<std::string>() << '\n';
}

}  // namespace

void add_tune(CLI::App& app) {
  auto args = std::make_shared<TuneArgs>();
  CLI::App* command = app.add_subcommand(
      "tune",
      "Measure which tile and workgroup shapes are fastest on a device, and keep them next to the pipeline cache.\n"
      "Models that are loaded on the device use them until its driver changes; WEFT_TUNE=0 ignores them");
  add_device_option(command, args->device);
  add_json_option(command, args->json);
  command->callback([args] { tune(*args); });
}

}  // namespace weft::cli
