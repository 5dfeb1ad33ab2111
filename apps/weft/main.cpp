// The `weft` program: picks the subcommand and turns every failure into one sentence and an exit code.
// 0: done; 1: it failed; 2: the command line is wrong.
#include <iostream>

#include <algorithm>

#include "../serve/config_file.h"
#include "common.h"
#include "describe.h"
#include "suggest.h"

namespace {

using namespace weft;

void add_subcommands(CLI::App& app) {
  cli::add_chat(app);
  cli::add_serve(app);
  cli::add_generate(app);
  cli::add_embed(app);
  cli::add_rerank(app);
  cli::add_fill(app);
  cli::add_listen(app);
  cli::add_bench(app);
  cli::add_perplexity(app);
  cli::add_head_report(app);
  cli::add_lens(app);
  cli::add_geometry(app);
  cli::add_lab(app);
  cli::add_vocab(app);
  cli::add_inspect(app);
  cli::add_convert(app);
  cli::add_imatrix(app);
  cli::add_devices(app);
  cli::add_tune(app);
  cli::add_plot(app);
  cli::add_models(app);
}

struct Subcommand {
  const char *name, *group, *example;
};
constexpr Subcommand kSubcommands[] = {
    {"chat", "Talk", ""},
    {"serve", "Talk", "weft serve -m smollm2-135m --port 8081"},
    {"generate", "Talk", "weft generate -p \"Once upon a time\" --max-tokens 100"},
    {"embed", "Encode", "weft embed -m bge-small-en \"a cat\" \"a dog\" --json"},
    {"rerank", "Encode",
     "weft rerank -m qwen3-reranker-0.6b \"How do I make tea?\" \"Boil some water.\" \"Ferries are ships.\""},
    {"fill", "Encode", "weft fill -m bert-base-uncased \"The [MASK] sat on the mat.\""},
    {"listen", "Encode", "weft listen -m whisper-base recording.mp3 --format srt"},
    {"models", "Models and devices", "weft models"},
    {"pull", "Models and devices", "weft pull qwen3-0.6b"},
    {"rm", "Models and devices", "weft rm qwen3-0.6b"},
    {"inspect", "Models and devices", "weft inspect -m smollm2-135m"},
    {"convert", "Models and devices", "weft convert model.gguf smaller.gguf --type q4"},
    {"imatrix", "Models and devices", "weft imatrix -m model.gguf text.txt -o imatrix.gguf"},
    {"devices", "Models and devices", "weft devices -m smollm2-135m"},
    {"tune", "Models and devices", "weft tune --device 0"},
    {"bench", "Measure", "weft bench -m smollm2-135m --prompt-tokens 512 --max-tokens 128"},
    {"perplexity", "Measure", "weft perplexity -m smollm2-135m -f text.txt"},
    {"head-report", "Measure", "weft head-report -m smollm2-135m -f text.txt"},
    {"lens", "Look inside", "weft lens -m smollm2-135m -p \"The capital of France is\""},
    {"geometry", "Look inside", "weft geometry -m smollm2-135m"},
    {"lab", "Look inside", "weft lab rank -m smollm2-135m"},
    {"vocab", "Look inside", "weft vocab build -f text.txt -o my.list"},
    {"plot", "Look inside", "weft plot -f data.json -o picture.png"},
};

// Groups, and an example before what else the help says.
void describe_subcommands(CLI::App& app) {
  for (const Subcommand& one : kSubcommands) {
    CLI::App* command = app.get_subcommand(one.name);
    command->group(one.group);
    if (*one.example == '\0') continue;
    const std::string more = command->get_footer();
    command->footer("Example:\n  " + std::string(one.example) + (more.empty() ? "" : "\n" + more));
  }
  CLI::App* describe = app.add_subcommand("describe", "Write a man page or a shell's completions")->group("");
  auto kind = std::make_shared<std::string>();
  describe->add_option("KIND", *kind, "man, bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(cli::kDescriptions), std::end(cli::kDescriptions))));
  describe->callback([&app, kind] { std::cout << cli::describe(app, *kind); });
}

// CLI11 splits a word "[a,b]" at its commas if an option takes several values. A byte after the "]" prevents it; every
// option takes the byte off again.
constexpr char kGuard = '\x1f';

bool is_bracketed(std::string_view word) {
  const std::size_t last = word.find_last_not_of(kGuard);
  return word.starts_with('[') && last != word.npos && word[last] == ']';
}

std::string with_guard(const std::string& word) { return is_bracketed(word) ? word + kGuard : word; }

std::string without_guard(std::string word) {
  if (is_bracketed(word) && word.ends_with(kGuard)) word.pop_back();
  return word;
}

// Makes the options of all subcommands take the guard off. Transforms that are added last run first.
void take_guards_off(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) option->transform(without_guard);
  for (CLI::App* one : app.get_subcommands([](CLI::App*) { return true; })) take_guards_off(*one);
}

// The chosen subcommand: the last one of "vocab build".
const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_command(*chosen.front());
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() ? full_name(*command.get_parent()) + " " + command.get_name() : command.get_name();
}

// Reports a wrong command line, with the names that may have been meant.
void report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen_command(app);
  const std::string help = full_name(command) + " --help lists the options";
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return cli::print_error({}, error.what(), help);
  const std::string first = without_guard(left.front()), wrong = first.substr(0, first.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    if (!one->get_group().empty()) known.push_back(one->get_name());
  const std::string meant = cli::did_you_mean(cli::nearest(wrong, known));
  const bool option = wrong.starts_with('-');
  const bool has_prompt = command.get_option_no_throw("--prompt") != nullptr;
  const bool groups = !command.get_subcommands([](const CLI::App*) { return true; }).empty();
  if (!option && !groups)
    return cli::print_error({}, full_name(command) + " takes no argument " + first,
                            has_prompt ? "--prompt TEXT gives it a text. " + help : help);
  cli::print_error({}, std::string("there is no ") + (option ? "option " : "subcommand ") + wrong,
                   meant.empty() ? help : meant + " " + help);
}

int run(int argc, char** argv) {
  CLI::App app("Weft runs small language models on any Vulkan GPU.", "weft");
  app.set_version_flag("--version", "weft " + api::version());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  weft chat                                     talk with the model that comes with Weft\n"
      "  weft chat \"What is the capital of France?\"    ask one question\n"
      "  weft serve                                    talk in a browser\n"
      "weft SUBCOMMAND --help lists a subcommand's options.");
  add_subcommands(app);
  describe_subcommands(app);
  take_guards_off(app);
  try {
    std::vector<std::string> words = serve::with_config_file(app, {argv + std::min(argc, 1), argv + argc});
    std::ranges::transform(words, words.begin(), with_guard);
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::Success& help) {  // --help and --version
    return app.exit(help);
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    report_parse_error(app, error);
    return 2;
  } catch (const cli::UsageError& error) {
    const std::string help = full_name(chosen_command(app)) + " --help lists the options";
    cli::print_error(error.option(), error.what(), error.hint().empty() ? help : error.hint());
    return 2;
  } catch (const api::Failure& error) {
    cli::print_error(error.place(), error.sentence(), error.hint());
    return 1;
  }
  std::cout.flush();
  if (!std::cout) {
    cli::print_error("stdout", "the output could not be written");
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    cli::print_error({}, error.what());
    return 1;
  }
}
