// weft devices: the machine's devices, their capabilities and Weft's plan for each.
#include <sys/utsname.h>
#include <unistd.h>
#include <weft/probe.h>

#include <algorithm>
#include <cctype>
#include <iostream>

#include "common.h"

namespace weft::cli {
namespace {

struct DevicesArgs {
  ModelArgs model;  // .model empty: none
  bool json = false, report = false;
};

std::string lower(std::string text) {
  // Not std::tolower: the locale of a chat's line editor may be Turkish, whose I has another small letter.
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Matches as --device does elsewhere: an index, or part of a name in any case.
bool chosen(const Json& device, const std::string& wanted) {
  return wanted.empty() || device.at("index").dump() == wanted ||
         lower(device.at("name").get<std::string>()).find(lower(wanted)) != std::string::npos;
}

void print_object(const char* title, const Json& object) {
  std::cout << "    " << title << '\n';
  for (const auto& [key, value] : object.items()) {
    std::cout << format("      %-34s %s\n", key.c_str(),
                        value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  }
}

void print_device(const Json& device) {
  std::cout << device.at("index") << ": " << device.at("name").get<std::string>() << '\n';
  for (const auto& [key, value] : device.items()) {
    if (key == "index" || key == "name") continue;
    if (value.is_object()) {
      print_object(key.c_str(), value);
    } else if (key == "memory_bytes") {
      std::cout << format("    %-36s %s\n", "memory", human_bytes(value.get<double>()).c_str());
    } else {
      std::cout << format("    %-36s %s\n", key.c_str(),
                          value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
  }
}

double number(const Json& object, const char* key) { return object.at(key).get<double>(); }

void print_fit(const Json& probe) {
  const Json& model = probe.at("model");
  std::cout << format("%s: %s\n", model.at("path").get<std::string>().c_str(),
                      model.at("family").get<std::string>().c_str())
            << format("    %-36s %s\n", "vocabulary", human_bytes(number(model, "vocab_bytes")).c_str())
            << format("    %-36s %s\n", "other weights", human_bytes(number(model, "layer_bytes")).c_str())
            << format("    %-36s %s\n", "in host memory", human_bytes(number(model, "streamed_bytes")).c_str())
            << format("    a session of %-23s %s\n", format("%u tokens", model.at("context").get<unsigned>()).c_str(),
                      human_bytes(number(model, "session_bytes")).c_str())
            << format("%s on %s: %s needed, %s free\n", probe.at("fits").get<bool>() ? "fits" : "does not fit",
                      probe.at("device").at("name").get<std::string>().c_str(),
                      human_bytes(number(probe, "needed_bytes")).c_str(),
                      human_bytes(number(probe, "free_bytes")).c_str());
}

// Prints whether a model would fit. Throws if that cannot be known; JSON contains the error instead.
void fit(const DevicesArgs& args) {
  weft_model_options options = weft_model_options_default();
  options.device = args.model.device.c_str();
  options.type = parse_type(args.model.type);
  options.vocab_type = parse_type(args.model.vocab_type);
  options.memory_budget = args.model.memory_budget;
  options.int8_inputs = args.model.int8_inputs;
  options.tie = args.model.tie == "never" ? WEFT_TIE_NEVER : WEFT_TIE_AUTO;
  const weft_session_options session = session_options(args.model, args.model.ctx);
  weft_probe_report report = {};
  char* text = nullptr;
  api::detail::check([&](weft_error* error) {
    return weft_probe(model_path(args.model.model).c_str(), 0, &options, &session, &report, sizeof report, &text,
                      error);
  });
  const Json probe = Json::parse(api::detail::take(text));
  if (args.json) return print_json(probe);
  if (report.device != WEFT_OK || report.model != WEFT_OK) {
    const Json& error = (report.device != WEFT_OK ? probe : probe.at("model")).at("error");
    throw api::Failure(report.device != WEFT_OK ? report.device : report.model, error.at("sentence").get<std::string>(),
                       error.at("place").get<std::string>(), error.at("hint").get<std::string>());
  }
  print_fit(probe);
}

// Variables of the environment that change what Weft or the Vulkan loader does.
Json environment() {
  Json found = Json::object();
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name.starts_with("WEFT_") || name.starts_with("VK"))
      if (name != "WEFT_API_KEY") found[name] = text.substr(name.size() + 1);
  }
  return found;
}

// All that is known of the machine's devices, for a report of a fault. Kernels of each compute their known answers, if
// they have not before.
void report(const Json& list) {
  Json devices = Json::array();
  for (const Json& device : list) {
    const std::string index = device.at("index").dump();
    weft_model_options options = weft_model_options_default();
    options.device = index.c_str();
    weft_probe_report result = {};
    char* text = nullptr;
    api::detail::check([&](weft_error* error) {
      return weft_probe(nullptr, 0, &options, nullptr, &result, sizeof result, &text, error);
    });
    const Json probe = Json::parse(api::detail::take(text));
    Json entry = probe.value("device", device);
    if (probe.contains("error")) entry["error"] = probe.at("error");
    entry["free_bytes"] = probe.at("free_bytes");
    devices.push_back(entry);
  }
  utsname system = {};
  uname(&system);
  print_json({{"weft", api::version()},
              {"system", format("%s %s %s", system.sysname, system.release, system.machine)},
              {"environment", environment()},
              {"devices", devices}});
}

void devices(const DevicesArgs& args) {
  if (!args.model.model.empty()) return fit(args);
  const Json all = Json::parse(api::devices());
  Json list = Json::array();
  for (const Json& device : all) {
    if (chosen(device, args.model.device)) list.push_back(device);
  }
  if (list.empty()) {
    if (!args.model.device.empty()) {
      throw api::Failure(WEFT_NOT_FOUND,
                         format("none of the %zu Vulkan devices is \"%s\"", all.size(), args.model.device.c_str()),
                         "--device", "weft devices lists them");
    }
    if (args.json) print_json({{"devices", list}});
    throw api::Failure(WEFT_NO_DEVICE, "there is no Vulkan device", "",
                       "install a driver; mesa-vulkan-drivers has one that runs on any CPU");
  }
  if (args.report) return report(list);
  if (args.json) {
    print_json({{"devices", list}});
    return;
  }
  for (const Json& device : list) print_device(device);
}

}  // namespace

void add_devices(CLI::App& app) {
  auto args = std::make_shared<DevicesArgs>();
  CLI::App* command = app.add_subcommand(
      "devices",
      "List the Vulkan devices, their capabilities and Weft's plan for each; with -m: tell whether a model fits");
  add_model_options(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_json_option(command, args->json);
  command->add_flag("--report", args->report,
                    "Print as JSON all that a report of a fault should have; first checks kernels that were not");
  command->callback([args] { devices(*args); });
}

}  // namespace weft::cli
