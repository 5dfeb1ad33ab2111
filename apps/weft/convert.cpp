// weft convert: a model as a GGUF file of another type.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <weft/convert.hpp>

#include "common.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct ConvertArgs {
  std::string in, out, type, vocab_type;
  bool force = false, json = false;
};

// Ctrl-C ends the work at the next piece, so that what was written so far goes away.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_convert_interrupt(int) { interrupted = true; }

void handle_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_convert_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

void convert(const ConvertArgs& args) {
  std::error_code ignored;
  if (!args.force && std::filesystem::exists(std::filesystem::symlink_status(args.out, ignored)))
    throw UsageError("OUT", "\"" + args.out + "\" is there already", "--force replaces it");
  const std::string in = model_path(args.in);
  handle_interrupts();
  Json report;
  {
    ProgressBar bar("converting " + std::filesystem::path(in).filename().string());
    api::ConvertOptions options;
    options.type = parse_type(args.type);
    options.vocab_type = parse_type(args.vocab_type);
    options.replace = args.force;
    options.progress = [&bar](float done) {
      bar.update(done);
      return !interrupted.load();
    };
    report = Json::parse(api::convert(in, args.out, options));
  }
  if (args.json) {
    report["out"] = args.out;
    print_json(report);
    return;
  }
  print_types(report.at("types"), "from_type", "to_type");
  std::cout << format("%zu tensors, %s, in %s\n", report.at("tensors").size(),
                      human_bytes(report.at("tensor_bytes").get<double>()).c_str(), args.out.c_str());
}

}  // namespace

void add_convert(CLI::App& app) {
  auto args = std::make_shared<ConvertArgs>();
  CLI::App* command = app.add_subcommand("convert", "Write a model as a GGUF file of another type");
  command
      ->add_option("IN", args->in,
                   "GGUF file, name as -m takes it, Hugging Face folder with a tokenizer.json, or safetensors file of "
                   "Medusa heads")
      ->required();
  command->add_option("OUT", args->out, "the GGUF file; it appears only when it is complete")->required();
  command->add_option("--type", args->type, "type of the matrices: q8 (GGUF's Q8_0), q4 (Q4_1) or f16")
      ->type_name("f16|q8|q4")
      ->required()
      ->check(type_name());
  command->add_option("--vocab-type", args->vocab_type, "type of the vocabulary table (default: as --type)")
      ->type_name("f16|q8|q4")
      ->check(type_name());
  command->add_flag("--force", args->force, "replace OUT if it exists");
  add_json_option(command, args->json);
  command->footer(
      "Numbers are rounded as when a model is loaded with that type, so the file gives the same tokens. Norms and "
      "other\n"
      "vectors become F32; matrices whose rows are no multiple of 32 become F16. llama.cpp opens the file too.");
  command->callback([args] { convert(*args); });
}

}  // namespace weft::cli
