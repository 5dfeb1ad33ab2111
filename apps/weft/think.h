// Reasoning before an answer: the option --think, and how reasoning is shown.
#pragma once

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

// Shows an answer and its reasoning while they come. On a terminal lines are broken between words, and the reasoning is
// dimmed, before the answer; else it is left out of stdout, and goes to stderr if it was asked for.
class AnswerWriter {
 public:
  explicit AnswerWriter(bool asked);
  // Each returns false if stdout cannot be written.
  bool reasoning(std::string_view text);
  bool answer(std::string_view text);
  void end();

 private:
  void leave_reasoning();

  std::string as_shown(std::string_view text);

  const bool terminal_, colors_, shown_;
  TerminalText on_terminal_;
  bool reasons_ = false;
};

}  // namespace weft::cli
