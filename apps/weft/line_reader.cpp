#include "line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>

namespace weft::cli {
namespace {

constexpr int kHistoryLines = 1000;

// $XDG_STATE_HOME/weft/history (XDG Base Directory Specification 0.8), its folder made. Empty: there is no place for
// it.
std::string history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state && *state == '/') {  // the specification: relative paths are to be ignored
    folder = state;
  } else if (home && *home) {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code failed;
  std::filesystem::create_directories(folder / "weft", failed);
  return failed ? std::string() : (folder / "weft" / "history").string();
}

// libedit decodes what is typed by the locale; the plain C locale would refuse everything but ASCII.
void use_utf8_locale() {
  if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineReader::Editor {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string file = history_file();
  bool interrupted = false;

  Editor() {
    use_utf8_locale();
    // What is typed is echoed on stderr: stdout is the answers'.
    line = el_init("weft", stdin, stderr, stderr);
    history = history_init();
    if (!line || !history) throw std::runtime_error("the line editor could not start: is TERM set?");
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!file.empty()) ::history(history, &event, H_LOAD, file.c_str());
    el_set(line, EL_CLIENTDATA, this);
    el_set(
        line, EL_PROMPT, +[](EditLine*) -> char* {
          static char prompt[] = "> ";
          return prompt;
        });
    el_set(line, EL_HIST, ::history, history);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // At the prompt Ctrl-C is a key like others, so that no signal handler has to mend the terminal.
    el_set(line, EL_SETTY, "-d", "-isig", nullptr);
    // The wide function keeps the two names as they are; el_set would keep copies that nothing frees.
    el_wset(
        line, EL_ADDFN, L"weft-interrupt", L"Give up this line", +[](EditLine* el, std::wint_t) -> unsigned char {
          Editor* self = nullptr;
          el_get(el, EL_CLIENTDATA, &self);
          self->interrupted = true;
          return CC_NEWLINE;
        });
    el_set(line, EL_BIND, "^C", "weft-interrupt", nullptr);
    el_source(line, nullptr);  // the user's ~/.editrc
  }

  ~Editor() {
    HistEvent event;
    if (history && !file.empty()) ::history(history, &event, H_SAVE, file.c_str());
    if (line) el_end(line);
    if (history) history_end(history);
  }

  Event read(std::string& text) {
    interrupted = false;
    int length = 0;
    el_set(line, EL_PREP_TERM, 1);  // libedit would show the prompt first: Ctrl-C in between would be a signal
    const char* typed = el_gets(line, &length);
    if (interrupted) {
      std::fputs("^C\n", stderr);
      return Event::interrupt;
    }
    if (!typed || length <= 0) {
      std::fputc('\n', stderr);
      return Event::end;
    }
    text = typed;
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    HistEvent event;
    if (text.find_first_not_of(" \t") != std::string::npos) ::history(history, &event, H_ENTER, text.c_str());
    return Event::line;
  }
};

LineReader::LineReader() {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) editor_ = std::make_unique<Editor>();
}

LineReader::~LineReader() = default;

LineReader::Event LineReader::read(std::string& line) {
  if (editor_) return editor_->read(line);
  if (!std::getline(std::cin, line)) return Event::end;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return Event::line;
}

}  // namespace weft::cli
