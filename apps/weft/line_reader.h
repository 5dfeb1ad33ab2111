// Reads what a person types, with line editing and a history kept between runs; or plain lines when stdin is no
// terminal.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::cli {

// Names of files and folders ("folder/") that begin with this path, sorted.
std::vector<std::string> paths_that_begin(const std::string& path);

// On a terminal a message may have several lines: pasted text, Alt-Enter, a "\\" at the end of a line, or lines between
// two """.
class LineReader {
 public:
  enum class Event {
    line,
    interrupt,  // Ctrl-C at the prompt
    end         // Ctrl-D, or the end of the input
  };
  // Lines that a line up to the cursor may become.
  using Completer = std::function<std::vector<std::string>(const std::string& line)>;

  explicit LineReader(Completer completer);  // one at a time: libedit knows one prompt
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool interactive() const { return editor_ != nullptr; }

  // The next line to be edited begins with this text. Only if interactive().
  void prefill(const std::string& text);

  // On Event::line, `line` is the typed text without its last line feed.
  Event read(std::string& line);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;
};

}  // namespace weft::cli
