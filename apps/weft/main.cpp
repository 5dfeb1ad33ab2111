// The `weft` program: picks the subcommand and turns every failure into one sentence and an exit code.
// 0: done; 1: it failed; 2: the command line is wrong.
#include <iostream>

#include "common.h"

namespace {

using namespace weft;

void add_subcommands(CLI::App& app) {
  cli::add_chat(app);
  cli::add_serve(app);
  cli::add_generate(app);
  cli::add_embed(app);
  cli::add_fill(app);
  cli::add_bench(app);
  cli::add_perplexity(app);
  cli::add_head_report(app);
  cli::add_lens(app);
  cli::add_geometry(app);
  cli::add_vocab(app);
  cli::add_inspect(app);
  cli::add_convert(app);
  cli::add_devices(app);
  cli::add_tune(app);
  cli::add_plot(app);
}

int run(int argc, char** argv) {
  CLI::App app("Weft runs small language models on any Vulkan GPU.", "weft");
  app.set_version_flag("--version", "weft " + api::version());
  app.require_subcommand(1);
  app.footer("weft SUBCOMMAND --help lists a subcommand's options.");
  add_subcommands(app);
  const auto help_hint = [&app]() {
    const auto chosen = app.get_subcommands();
    return "weft " + (chosen.empty() ? std::string() : chosen.front()->get_name() + " ") + "--help lists the options";
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help and --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto left = app.get_subcommands().empty() ? app.remaining() : std::vector<std::string>();
    const std::string unknown = left.empty() ? "" : left.front();
    cli::print_error({}, unknown.empty() ? error.what() : "there is no subcommand or option " + unknown, help_hint());
    return 2;
  } catch (const cli::UsageError& error) {
    cli::print_error(error.option(), error.what(), error.hint().empty() ? help_hint() : error.hint());
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
