#include "think.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "common.h"

namespace weft::cli {
namespace {

constexpr const char *kDim = "\x1b[2m", *kBright = "\x1b[22m", *kClearRest = "\x1b[K";
constexpr std::string_view kThinking = "thinking: ";
constexpr std::size_t kUsualColumns = 80;  // of a terminal that does not say

bool has_escapes() {
  const char* const term = std::getenv("TERM");
  return term && std::string_view(term) != "dumb";
}

bool has_colors() {
  const char* const none = std::getenv("NO_COLOR");
  return (!none || !*none) && has_escapes();
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

AnswerWriter::AnswerWriter(bool asked, std::string remark)
    : terminal_(isatty(STDOUT_FILENO) == 1),
      colors_(terminal_ && has_colors()),
      asked_(asked),
      remark_(std::move(remark)) {}

std::string AnswerWriter::as_shown(std::string_view text) {
  return terminal_ ? on_terminal_.add(text, terminal_columns()) : std::string(text);
}

std::string AnswerWriter::dimmed(const std::string& text) const {
  return colors_ ? std::string(kDim) + text + kBright : text;
}

bool AnswerWriter::reasoning(std::string_view text) {
  if (!std::exchange(reasons_, true)) {
    begun_ = std::chrono::steady_clock::now();
    if (terminal_ && !on_terminal_.at_left()) std::cout << as_shown("\n");
    if (asked_ && colors_) std::cout << kDim;
  }
  if (asked_)
    (terminal_ ? std::cout : std::cerr) << as_shown(text) << std::flush;
  else if (terminal_)
    fold(text);
  return static_cast<bool>(std::cout);
}

// A terminal without escapes shows nothing until the reasoning ends.
void AnswerWriter::fold(std::string_view text) {
  constexpr std::size_t kKept = 4096;  // bytes: more than a line
  folded_ += text;
  if (folded_.size() > kKept) folded_.erase(0, folded_.size() - kKept / 2);
  if (!has_escapes()) return;
  const std::size_t columns = terminal_columns();
  const std::size_t cells = (columns == 0 ? kUsualColumns : columns) - 1;
  if (cells <= kThinking.size()) return;
  std::cout << '\r' << dimmed(std::string(kThinking) + last_cells(folded_, cells - kThinking.size())) << kClearRest
            << std::flush;
}

void AnswerWriter::leave_reasoning() {
  if (!std::exchange(reasons_, false)) return;
  if (asked_) {
    if (colors_) std::cout << kBright;
    (terminal_ ? std::cout : std::cerr) << as_shown(terminal_ ? "\n\n" : "\n") << std::flush;
  } else if (terminal_) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun_;
    if (has_escapes()) std::cout << '\r' << kClearRest;
    std::cout << dimmed(format("[thought for %.0f s%s]", time.count(), remark_.c_str())) << "\n\n" << std::flush;
    folded_.clear();
  }
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

void show_dimmed(std::string_view text) {
  const bool terminal = isatty(STDOUT_FILENO) == 1, colors = terminal && has_colors();
  if (colors) std::cout << kDim;
  std::cout << (terminal ? TerminalText().add(text, terminal_columns()) : std::string(text));
  if (colors) std::cout << kBright;
  std::cout << std::endl;
}

}  // namespace weft::cli
