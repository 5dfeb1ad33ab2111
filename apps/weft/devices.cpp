// weft devices: what this machine has, what it can do and what Weft will do there.
#include <algorithm>
#include <cctype>
#include <iostream>

#include "common.h"

namespace weft::cli {
namespace {

struct DevicesArgs {
  std::string device;
  bool json = false;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// As --device elsewhere: an index, or part of a name in any case.
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

void devices(const DevicesArgs& args) {
  const Json all = Json::parse(api::devices());
  Json list = Json::array();
  for (const Json& device : all) {
    if (chosen(device, args.device)) list.push_back(device);
  }
  if (list.empty()) {
    if (!args.device.empty()) {
      throw api::Failure(WEFT_NOT_FOUND,
                         format("none of the %zu Vulkan devices is \"%s\"", all.size(), args.device.c_str()),
                         "--device", "weft devices lists them");
    }
    print_error({}, "there is no Vulkan device", "install a driver; mesa-vulkan-drivers has one that runs on any CPU");
  }
  if (args.json) {
    print_json({{"devices", list}});
    return;
  }
  for (const Json& device : list) print_device(device);
}

}  // namespace

void add_devices(CLI::App& app) {
  auto args = std::make_shared<DevicesArgs>();
  CLI::App* command =
      app.add_subcommand("devices", "List the Vulkan devices, their capabilities and Weft's plan for each");
  add_device_option(command, args->device);
  add_json_option(command, args->json);
  command->callback([args] { devices(*args); });
}

}  // namespace weft::cli
