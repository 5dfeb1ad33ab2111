// Reasoning before an answer: the option --think, and how reasoning is shown.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "terminal_text.h"

namespace CLI {
class App;
}

namespace weft::cli {

struct ThinkArgs {
  std::optional<bool> on;    // absent: as the model's template has it
  std::uint32_t tokens = 0;  // at most; 0: no limit
};
void add_think_option(CLI::App* command, ThinkArgs& args);

// Shows an answer and its reasoning while they come. On a terminal lines are broken between words. There, reasoning
// that was asked for is dimmed, before the answer; other reasoning is one line with its end, which becomes how long it
// took. Elsewhere it is left out of stdout, and goes to stderr if it was asked for.
class AnswerWriter {
 public:
  // remark: is told with the time, a way to see the reasoning.
  AnswerWriter(bool asked, std::string remark);
  // Each returns false if stdout cannot be written.
  bool reasoning(std::string_view text);
  bool answer(std::string_view text);
  void end();

 private:
  void fold(std::string_view text);
  void leave_reasoning();
  std::string as_shown(std::string_view text);
  std::string dimmed(const std::string& text) const;

  const bool terminal_, colors_, asked_;
  const std::string remark_;
  TerminalText on_terminal_;
  bool reasons_ = false;
  std::string folded_;                           // the end of reasoning that is not shown
  std::chrono::steady_clock::time_point begun_;  // the reasoning
};

// Shows text on stdout, dimmed on a terminal.
void show_dimmed(std::string_view text);

}  // namespace weft::cli
