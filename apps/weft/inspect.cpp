// weft inspect: a model's properties, and the place of each of its tensors.
#include <algorithm>
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
  std::string text;
  for (const Json& user : users) text += (text.empty() ? "" : ", ") + user.get<std::string>();
  return text;
}

// The longest "name" of a list: how wide its column is.
int name_width(const Json& list) {
  std::size_t width = 6;
  for (const Json& item : list) width = std::max(width, item.at("name").get<std::string>().size());
  return static_cast<int>(width);
}

std::string text(const Json& item, const char* key) { return item.at(key).get<std::string>(); }

void print_tensors(const Json& tensors) {
  const int width = name_width(tensors);
  std::cout << format("%-*s  %-14s %-6s %-6s %12s  %-18s  %s\n", width, "tensor", "shape", "file", "device", "bytes",
                      "largest error", "buffer");
  for (const Json& tensor : tensors) {
    std::cout << format("%-*s  %-14s %-6s %-6s %12llu  %-18s  %s\n", width, text(tensor, "name").c_str(),
                        shape_text(tensor.at("shape")).c_str(), text(tensor, "file_type").c_str(),
                        text(tensor, "device_type").c_str(), tensor.at("device_bytes").get<unsigned long long>(),
                        rounding_text(tensor).c_str(), text(tensor, "buffer").c_str());
  }
}

void print_buffers(const Json& buffers) {
  const int width = name_width(buffers);
  std::cout << format("%-*s  %12s  %s\n", width, "buffer", "bytes", "users");
  unsigned long long total = 0, waiting = 0;
  for (const Json& buffer : buffers) {
    const auto bytes = buffer.at("bytes").get<unsigned long long>();
    const bool host = text(buffer, "memory") == "host";
    (host ? waiting : total) += bytes;
    std::cout << format("%-*s  %12llu  %s%s\n", width, text(buffer, "name").c_str(), bytes, host ? "(host) " : "",
                        users_text(buffer.at("users")).c_str());
  }
  std::cout << format("%-*s  %12llu\n", width, "all", total);
  if (waiting > 0) std::cout << format("%-*s  %12llu  wait in the host's memory\n", width, "streamed", waiting);
}

void print_tie(const Json& tie) {
  std::cout << format("%s is used for embedding and output: %s differs from it by rounding only, %.2g%% of its norm\n",
                      text(tie, "kept").c_str(), text(tie, "left_out").c_str(),
                      100 * tie.at("difference").get<double>());
}

void print_shards(const Json& shards) {
  for (const Json& shard : shards) {
    const bool measured = shard.contains("gigabytes_per_second");
    std::cout << format("rows %u to %u, %s: %s; %s %.3g%s\n", shard.at("first_row").get<unsigned>(),
                        shard.at("first_row").get<unsigned>() + shard.at("rows").get<unsigned>() - 1,
                        human_bytes(shard.at("bytes").get<double>()).c_str(), text(shard, "device").c_str(),
                        measured ? "reads" : "share",
                        shard.at(measured ? "gigabytes_per_second" : "share").get<double>(), measured ? " GB/s" : "");
  }
}

void print_tables(const weft_model_info& info, const Json& description) {
  std::cout << format(
                   "%s, %s on the device: %u layers, %u wide, %u vocabulary rows (%s), context %u, %.2f M parameters\n",
                   info.family, info.type, info.layers, info.width, info.vocab_size, info.tied ? "tied" : "untied",
                   info.max_context, static_cast<double>(info.parameters) / 1e6)
            << format("%s; %s\n", info.device, info.driver)
            << format("%s read to decode a token\n", human_bytes(static_cast<double>(info.bytes_per_token)).c_str());
  if (description.contains("softmaxes")) {
    const Json& softmaxes = description.at("softmaxes");
    std::printf("%u softmaxes (%s)\n", softmaxes.at("count").get<unsigned>(), text(softmaxes, "kind").c_str());
  }
  if (description.contains("tie")) print_tie(description.at("tie"));
  if (description.contains("untied_by_tensors"))
    std::cout
        << "the configuration says that the vocabulary tables are one, but they differ: each is used for its own\n";
  if (description.contains("shards")) print_shards(description.at("shards"));
  std::cout << '\n';
  print_types(description.at("types"), "file_type", "device_type");
  std::cout << '\n';
  print_tensors(description.at("tensors"));
  std::cout << '\n';
  print_buffers(description.at("buffers"));
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

std::string rounding_text(const Json& item) {
  if (item.at("exact").get<bool>()) return "exact";
  return format("%.2g (%.2g%%)", item.at("largest_error").get<double>(), 100 * item.at("relative_error").get<double>());
}

void print_types(const Json& types, const char* from_key, const char* to_key) {
  std::cout << format("%-6s %-6s %8s  %s\n", "from", "to", "tensors", "largest error (of a tensor's largest element)");
  for (const Json& type : types) {
    std::cout << format("%-6s %-6s %8llu  %s\n", text(type, from_key).c_str(), text(type, to_key).c_str(),
                        type.at("tensors").get<unsigned long long>(), rounding_text(type).c_str());
  }
}

void add_inspect(CLI::App& app) {
  auto args = std::make_shared<InspectArgs>();
  CLI::App* command = app.add_subcommand("inspect", "Show a model's tensors and the device buffers they went to");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  command->add_option("MODEL", args->model.model, "the same as -m");
  add_json_option(command, args->json);
  command->callback([args] { inspect(*args); });
}

}  // namespace weft::cli
