// weft inspect: a model's properties, and the place of each of its tensors.
#include <algorithm>
#include <iostream>

#include "canvas.h"
#include "common.h"
#include "cost.h"

namespace weft::cli {
namespace {

struct InspectArgs {
  ModelArgs model;
  bool json = false;
  bool cost = false;
  std::string shape, plot;
  std::uint64_t tokens = 2048;  // whose logits are counted together
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
  if (description.contains("head")) std::cout << text(description.at("head"), "text") << "\n";
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

// The sizes of a loaded model, with the table as the device holds it.
ModelShape loaded_shape(const ModelArgs& args) {
  const api::Model model = load_model(args);
  const weft_model_info info = model.info();
  const Json description = Json::parse(model.describe());
  ModelShape shape = {model_name(args.model), info.vocab_size, info.width, info.layers,
                      info.parameters,        info.tied != 0,  info.type,  0};
  shape.table_bytes = static_cast<double>(info.vocab_bytes) / (info.tied ? 1 : 2);
  for (const Json& tensor : description.at("tensors")) {
    const auto extents = tensor.at("shape").get<std::vector<std::uint64_t>>();
    const auto bytes = tensor.at("device_bytes").get<std::uint64_t>();  // 0: the second name of a shared table
    if (bytes == 0 || extents != std::vector<std::uint64_t>{info.vocab_size, info.width}) continue;
    shape.type = text(tensor, "device_type");
    shape.table_bytes = static_cast<double>(bytes);
  }
  return shape;
}

void inspect_cost(const InspectArgs& args) {
  if (!args.plot.empty()) require_writable("--plot", args.plot);
  const ModelShape shape = args.shape.empty()
                               ? loaded_shape(args.model)
                               : shape_of(args.shape, args.model.type.empty() ? "bf16" : args.model.type);
  print_cost(shape, args.tokens, args.json);
  if (!args.plot.empty()) write_cost_plot(shape, args.plot);
}

void inspect(const InspectArgs& args) {
  if (args.cost) return inspect_cost(args);
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
  CLI::Option* cost =
      command->add_flag("--cost", args->cost,
                        "show what the vocabulary table costs: its parameters, the bytes and the time of "
                        "a projection on described devices");
  command
      ->add_option(
          "--shape", args->shape,
          "with --cost: a model that need not be there, with a table of --type (default: bf16); ROWSxWIDTH, or " +
              shape_names())
      ->type_name("SHAPE")
      ->needs(cost);
  command
      ->add_option("--tokens", args->tokens, "with --cost: the number of scored tokens whose logits are kept at once")
      ->type_name("N")
      ->transform(whole(1))
      ->needs(cost);
  command->add_option("--plot", args->plot, "with --cost: draw shares and times as PNG, SVG or PDF")
      ->type_name("PICTURE")
      ->needs(cost);
  command->callback([args] { inspect(*args); });
}

}  // namespace weft::cli
