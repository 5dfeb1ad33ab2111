#include "think.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

namespace weft::cli {
namespace {

bool has_colors() {
  const char *const none = std::getenv("NO_COLOR"), *const term = std::getenv("TERM");
  return (!none || !*none) && term && std::string_view(term) != "dumb";
}

}  // namespace

void add_think_option(CLI::App* command, ThinkArgs& args) {
  command
      ->add_option_function<std::string>(
          "--think",
          [&args](const std::string& text) {
            args = {text != "off", 0};
            if (text == "on" || text == "off") return;
            const bool number = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == text.npos;
            if (number) args.tokens = static_cast<std::uint32_t>(std::stoul(text));
            if (args.tokens == 0)
              throw CLI::ValidationError("--think", "it is '" + text + "', not on, off or a number of tokens");
          },
          "let the model reason before it answers, or not, or for N tokens at most; in a pipe its\n"
          "reasoning then goes to stderr")
      ->type_name("on|off|N");
}

AnswerWriter::AnswerWriter(bool asked)
    : terminal_(isatty(STDOUT_FILENO) == 1), colors_(terminal_ && has_colors()), shown_(terminal_ || asked) {}

std::string AnswerWriter::as_shown(std::string_view text) {
  return terminal_ ? on_terminal_.add(text, terminal_columns()) : std::string(text);
}

bool AnswerWriter::reasoning(std::string_view text) {
  if (!shown_) return true;
  std::ostream& out = terminal_ ? std::cout : std::cerr;
  if (!reasons_ && colors_) out << "\x1b[2m";
  reasons_ = true;
  out << as_shown(text) << std::flush;
  return static_cast<bool>(std::cout);
}

void AnswerWriter::leave_reasoning() {
  if (!reasons_) return;
  reasons_ = false;
  if (colors_) std::cout << "\x1b[22m";
  (terminal_ ? std::cout : std::cerr) << as_shown(terminal_ ? "\n\n" : "\n") << std::flush;
}

bool AnswerWriter::answer(std::string_view text) {
  if (!text.empty()) leave_reasoning();
  std::cout << as_shown(text) << std::flush;
  return static_cast<bool>(std::cout);
}

void AnswerWriter::end() {
  leave_reasoning();
  std::cout << std::endl;
}

}  // namespace weft::cli
