// weft imatrix: how much errors of each column of a model's matrices matter, measured over a text.
#include <filesystem>
#include <iostream>
#include <weft/importance.hpp>

#include "common.h"
#include "interrupts.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct ImatrixArgs {
  ModelArgs model;
  std::string text, out;
  std::uint32_t part_tokens = 512;
  bool force = false, json = false;
};

// TEXT, whole: the library reads up to a zero byte.
std::string text_to_measure(const std::string& path) {
  const std::string place = "TEXT " + path;
  try {
    std::string text = read_text(path);
    require_utf8(place, text);
    return text;
  } catch (const api::Failure& error) {
    throw api::Failure(error.status(), error.sentence(), place, error.hint());  // read_text names -f
  }
}

void imatrix(const ImatrixArgs& args) {
  std::error_code ignored;
  if (!args.force && std::filesystem::exists(std::filesystem::symlink_status(args.out, ignored)))
    throw UsageError("-o", "\"" + args.out + "\" is there already", "--force replaces it");
  const std::string text = text_to_measure(args.text);
  const api::Model model = load_model(args.model);
  note_interrupts();
  std::uint64_t tokens = 0;
  {
    ProgressBar bar("measuring");
    api::ImportanceOptions options;
    options.name = std::filesystem::path(args.text).filename().string();
    options.part_tokens = args.part_tokens;
    options.replace = args.force;
    options.progress = [&bar](float done) {
      bar.update(done);
      return !was_interrupted();
    };
    tokens = api::measure_importance(model, text, args.out, options);
  }
  if (args.json) return print_json({{"tokens", tokens}, {"out", args.out}});
  std::cout << format("%llu tokens, in %s\n", static_cast<unsigned long long>(tokens), args.out.c_str());
}

}  // namespace

void add_imatrix(CLI::App& app) {
  auto args = std::make_shared<ImatrixArgs>();
  CLI::App* command = app.add_subcommand(
      "imatrix", "Measure over a text which columns of a model's matrices matter most, for convert --imatrix");
  add_model_options(command, args->model);
  command->add_option("TEXT", args->text, "file of text like that the model will work with; some 100 KB")->required();
  command->add_option("-o,--output", args->out, "the GGUF file; llama-quantize reads it too")
      ->type_name("FILE")
      ->required();
  command->add_option("--part-tokens", args->part_tokens, "cut the text into parts of N tokens (default: 512)")
      ->type_name("N")
      ->transform(whole(2, 1u << 20));
  command->add_flag("--force", args->force, "replace FILE if it exists");
  add_json_option(command, args->json);
  command->footer(
      "The file has the mean squared inputs of each product of the layers. Weights of experts and the vocabulary\n"
      "table are not measured. Measure the model before it is rounded, for example a file of f16.");
  command->callback([args] { imatrix(*args); });
}

}  // namespace weft::cli
