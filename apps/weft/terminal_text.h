// Text that comes in pieces, as a terminal shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::cli {

// Breaks lines between words, and shows control characters instead of obeying them: a model may write any.
class TerminalText {
 public:
  // Returns the bytes to write for more UTF-8 text. columns: of the terminal now; 0: not known, and no line is broken.
  // The text began at the left edge. A word that turns out too long for its line is moved to the next one.
  std::string add(std::string_view text, std::size_t columns);

  // The next text begins a line.
  bool at_left() const { return column_ == 0; }

 private:
  std::size_t column_ = 0;  // cells of the line so far
  std::string word_;        // that the text ends with
  std::size_t word_cells_ = 0;
};

// The end of a text that takes at most so many cells, in one line: control characters are spaces.
std::string last_cells(std::string_view text, std::size_t cells);

// Columns of the terminal on stdout; 0 if stdout is no terminal, or its size is not known.
std::size_t terminal_columns();

}  // namespace weft::cli
