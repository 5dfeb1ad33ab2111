// weft inspect: what a model is and where each of its tensors went.
#include <iostream>

#include "common.h"

namespace weft::cli {
namespace {

struct InspectArgs {
  ModelArgs model;
  bool json = false;
};

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& extent : shape) text += (text.empty() ? "" : " x ") + extent.dump();
  return text;
}

std::string users_text(const Json& users) {
  if (users.is_string()) return users.get<std::string>();
  std::string text;
  for (const Json& user : users) text += (text.empty() ? "" : ", ") + user.get<std::string>();
  return text;
}

void print_tables(const weft_model_info& info, const Json& description) {
  std::cout << format(
                   "%s, %s on the device: %u layers, %u wide, %u vocabulary rows (%s), context %u, %.2f M parameters\n",
                   info.family, info.type, info.layers, info.width, info.vocab_size, info.tied ? "tied" : "untied",
                   info.max_context, static_cast<double>(info.parameters) / 1e6)
            << format("%s, %s\n\n", info.device, info.driver)
            << format("%-40s %-16s %-6s %-6s %12s  %s\n", "tensor", "shape", "file", "device", "bytes", "buffer");
  for (const Json& tensor : description.at("tensors")) {
    std::cout << format("%-40s %-16s %-6s %-6s %12llu  %s\n", tensor.at("name").get<std::string>().c_str(),
                        shape_text(tensor.at("shape")).c_str(), tensor.at("file_type").get<std::string>().c_str(),
                        tensor.at("device_type").get<std::string>().c_str(),
                        tensor.at("device_bytes").get<unsigned long long>(),
                        tensor.at("buffer").get<std::string>().c_str());
  }
  std::cout << format("\n%-40s %12s  %s\n", "buffer", "bytes", "users");
  unsigned long long total = 0;
  for (const Json& buffer : description.at("buffers")) {
    const auto bytes = buffer.at("bytes").get<unsigned long long>();
    total += bytes;
    std::cout << format("%-40s %12llu  %s\n", buffer.at("name").get<std::string>().c_str(), bytes,
                        users_text(buffer.at("users")).c_str());
  }
  std::cout << format("%-40s %12llu  %s; %s read to decode a token\n", "all", total,
                      human_bytes(static_cast<double>(total)).c_str(),
                      human_bytes(static_cast<double>(info.bytes_per_token)).c_str());
}

void inspect(const InspectArgs& args) {
  const api::Model model = load_model(args.model);
  const Json description = Json::parse(model.describe());
  if (args.json) {
    print_json(description);
  } else {
    print_tables(model.info(), description);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* command = app.add_subcommand("inspect", "Show a model's tensors and the device buffers they went to");
  add_model_options(command, args->model);
  command->add_option("MODEL", args->model.model, "the same as -m");
  add_json_option(command, args->json);
  command->callback([args] { inspect(*args); });
}

}  // namespace weft::cli
