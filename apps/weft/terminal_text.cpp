#include "terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>

namespace weft::cli {
namespace {

constexpr std::size_t kNarrowest = 20;  // columns; lines of a narrower terminal are left to it
constexpr std::size_t kTab = 8;

bool is_control(utf8proc_int32_t character) { return character < 0x20 || (character >= 0x7f && character < 0xa0); }

// "^[" for escape, as cat -v has it; a mark for those above ASCII.
std::string visible(utf8proc_int32_t control) {
  if (control >= 0x80) return "\xEF\xBF\xBD";
  return {'^', static_cast<char>(control ^ 0x40)};
}

}  // namespace

std::string TerminalText::add(std::string_view text, std::size_t columns) {
  const bool breaks = columns >= kNarrowest;
  std::string out;
  const auto end_word = [this] {
    word_.clear();
    word_cells_ = 0;
  };
  const auto new_line = [&] {
    out += '\n';
    column_ = 0;
  };
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t bytes = utf8proc_iterate(at, end - at, &character);
    if (bytes <= 0) character = 0xfffd;
    std::string shown = bytes > 0 ? std::string(reinterpret_cast<const char*>(at), static_cast<std::size_t>(bytes))
                                  : std::string("\xEF\xBF\xBD");
    at += std::max<utf8proc_ssize_t>(bytes, 1);
    if (character == '\n') {
      end_word();
      new_line();
      continue;
    }
    if (character == ' ' || character == '\t') {
      end_word();
      if (breaks && column_ >= columns) {
        new_line();  // instead of the space
        continue;
      }
      const std::size_t cells = character == ' ' ? 1 : kTab - column_ % kTab;
      column_ += breaks ? std::min(cells, columns - column_) : cells;
      out += shown;
      continue;
    }
    if (is_control(character)) shown = visible(character);
    const std::size_t cells = is_control(character) && character < 0x80
                                  ? 2
                                  : static_cast<std::size_t>(std::max(utf8proc_charwidth(character), 0));
    const bool wide = utf8proc_charwidth(character) == 2;  // a line of these may be broken anywhere
    if (wide) end_word();
    if (breaks && column_ + cells > columns) {
      if (word_cells_ > 0 && word_cells_ < column_) {
        out += "\033[" + std::to_string(column_ - word_cells_ + 1) + "G\033[K";
        new_line();
        out += word_;
        column_ = word_cells_;
      } else {
        end_word();
        new_line();
      }
    }
    out += shown;
    column_ += cells;
    if (wide) continue;
    word_ += shown;
    word_cells_ += cells;
  }
  return out;
}

std::string last_cells(std::string_view text, std::size_t cells) {
  std::string shown;
  std::size_t used = 0;
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;  // of the last character
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    std::string one(text.substr(begin));
    text.remove_suffix(one.size());
    utf8proc_int32_t character = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(one.data());
    if (utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(one.size()), &character) <= 0) {
      one = "\xEF\xBF\xBD";
      character = 0xfffd;
    }
    if (is_control(character)) one = ' ', character = ' ';
    used += static_cast<std::size_t>(std::max(utf8proc_charwidth(character), 0));
    if (used > cells) break;
    shown.insert(0, one);
  }
  return shown;
}

std::size_t terminal_columns() {
  winsize size = {};
  return isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace weft::cli
