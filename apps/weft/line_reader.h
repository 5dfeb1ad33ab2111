// Reads what a person types, with line editing and a history kept between runs; or plain lines when stdin is no
// terminal.
#pragma once

#include <memory>
#include <string>

namespace weft::cli {

class LineReader {
 public:
  enum class Event {
    line,
    interrupt,  // Ctrl-C at the prompt
    end         // Ctrl-D, or the end of the input
  };

  LineReader();  // one at a time: libedit knows one prompt
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool interactive() const { return editor_ != nullptr; }

  // On Event::line, `line` is what was typed, without its line feed.
  Event read(std::string& line);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;
};

}  // namespace weft::cli
