// weft convert: a model as a GGUF file of another type.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/convert.hpp>

#include "common.h"
#include "interrupts.h"
#include "progress_bar.h"
#include "suggest.h"

namespace weft::cli {
namespace {

struct ConvertArgs {
  std::string in, out, type, vocab_type, imatrix;
  bool force = false, json = false;
};

// Names that stand for others: those of the device's formats, and llama-quantize's.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"q8", "q8_0"}, {"q4", "q4_1"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};

std::vector<std::string> file_type_names() {
  std::vector<std::string> names;
  for (int type = 1; const char* name = weft_file_type_name(static_cast<weft_file_type>(type)); ++type)
    names.emplace_back(name);
  return names;
}

// WEFT_FILE_TYPE_DEFAULT for what is no name. Capital letters count as small ones.
weft_file_type parse_file_type(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  for (const auto& [alias, name] : kAliases)
    if (text == alias) text = name;
  const std::vector<std::string> names = file_type_names();
  const auto at = std::ranges::find(names, text);
  return at == names.end() ? WEFT_FILE_TYPE_DEFAULT : static_cast<weft_file_type>(at - names.begin() + 1);
}

std::string joined_names() {
  std::string text;
  for (const std::string& name : file_type_names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

CLI::Validator file_type_name() {
  const auto validate = [](const std::string& text) -> std::string {
    if (parse_file_type(text) != WEFT_FILE_TYPE_DEFAULT) return "";
    const std::string meant = did_you_mean(nearest(text, file_type_names()));
    return "must be one of " + joined_names() + ", not \"" + text + "\"" + (meant.empty() ? "" : "; " + meant);
  };
  return CLI::Validator(validate, "", "file type");
}

void convert(const ConvertArgs& args) {
  std::error_code ignored;
  if (!args.force && std::filesystem::exists(std::filesystem::symlink_status(args.out, ignored)))
    throw UsageError("OUT", "\"" + args.out + "\" is there already", "--force replaces it");
  const std::string in = model_path(args.in);
  note_interrupts();
  Json report;
  {
    ProgressBar bar("converting " + std::filesystem::path(in).filename().string());
    api::ConvertOptions options;
    options.type = parse_file_type(args.type);
    options.vocab_type = parse_file_type(args.vocab_type);
    options.importance = args.imatrix;
    options.replace = args.force;
    options.progress = [&bar](float done) {
      bar.update(done);
      return !was_interrupted();
    };
    report = Json::parse(api::convert(in, args.out, options));
  }
  if (args.json) {
    report["out"] = args.out;
    print_json(report);
    return;
  }
  print_types(report.at("types"), "from_type", "to_type");
  const Json& tensors = report.at("tensors");
  const auto weighted =
      std::ranges::count_if(tensors, [](const Json& tensor) { return tensor.at("weighted").get<bool>(); });
  const std::string by = args.imatrix.empty() ? "" : format(", %td of them with the importance matrix", weighted);
  std::cout << format("%zu tensors%s, %s, in %s\n", tensors.size(), by.c_str(),
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
  command->add_option("--type", args->type, "type of the file: " + joined_names())
      ->type_name("TYPE")
      ->required()
      ->check(file_type_name());
  command->add_option("--vocab-type", args->vocab_type, "type of the vocabulary table (default: as --type says)")
      ->type_name("TYPE")
      ->check(file_type_name());
  command
      ->add_option("--imatrix", args->imatrix,
                   "importance matrix: which columns of a matrix matter most; not for f16, q8_0 and q4_1")
      ->type_name("FILE")
      ->check(CLI::Validator([](const std::string& path) { return path.empty() ? "must not be empty" : ""; }, ""));
  command->add_flag("--force", args->force, "replace OUT if it exists");
  add_json_option(command, args->json);
  command->footer(
      "Types are named as llama-quantize names them; q8 is q8_0, q4 is q4_1. q4_k_m and q5_k_m have Q6_K for half of "
      "the\n"
      "matrices that matter most. Rows that are no multiple of 256 have Q5_0 for Q4_K, Q5_1 for Q5_K and Q8_0 for "
      "Q6_K;\n"
      "those that are no multiple of 32 become F16. Norms and other vectors become F32. Numbers become f16, q8_0 and "
      "q4_1\n"
      "as when a model is loaded with that type, so the file gives the same tokens. llama.cpp opens the file too.");
  command->callback([args] { convert(*args); });
}

}  // namespace weft::cli
