#include "line_reader.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace weft::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr std::string_view kPasteBegin = "\033[200~", kPasteEnd = "\033[201~";  // as terminals bracket pasted text
constexpr std::string_view kQuotes = "\"\"\"";

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

// A signal handler reports resizes through a pipe, which the wait for a key watches too.
int resize_pipe[2] = {-1, -1};

extern "C" void on_resize(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t ignored = write(resize_pipe[1], "", 1);
  errno = saved;
}

void watch_resizes() {
  if (resize_pipe[0] < 0 && pipe2(resize_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
    throw std::runtime_error("the line editor could not start: too many open files");
  struct sigaction action {};
  action.sa_handler = on_resize;
  action.sa_flags = SA_RESTART;
  sigaction(SIGWINCH, &action, nullptr);
}

std::string common_prefix(const std::vector<std::string>& texts) {
  std::string prefix = texts.front();
  for (const std::string& text : texts) {
    const auto end = std::mismatch(prefix.begin(), prefix.end(), text.begin(), text.end()).first;
    prefix.erase(end, prefix.end());
  }
  return prefix;
}

}  // namespace

std::vector<std::string> paths_that_begin(const std::string& path) {
  const std::size_t slash = path.rfind('/') + 1;  // 0: no slash
  const std::string folder = path.substr(0, slash);
  std::vector<std::string> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(path.substr(slash)) || (name.front() == '.' && path.size() == slash)) continue;
    std::error_code unknown;
    found.push_back(folder + name + (entry->is_directory(unknown) ? "/" : ""));
  }
  std::ranges::sort(found);
  return found;
}

struct LineReader::Editor {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string file = history_file();
  Completer completer;
  bool interrupted = false, continuing = false;

  explicit Editor(Completer completes) : completer(std::move(completes)) {
    use_utf8_locale();
    watch_resizes();
    // The echo goes to stderr: stdout is for answers.
    line = el_init("weft", stdin, stderr, stderr);
    history = history_init();
    if (!line || !history) throw std::runtime_error("the line editor could not start: is TERM set?");
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!file.empty()) ::history(history, &event, H_LOAD, file.c_str());
    el_set(line, EL_CLIENTDATA, this);
    el_set(
        line, EL_PROMPT, +[](EditLine* el) -> char* {
          static char first[] = "> ", next[] = ". ";
          return of(el)->continuing ? next : first;
        });
    el_set(line, EL_HIST, ::history, history);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_GETCFN, &Editor::get_key);
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // At the prompt Ctrl-C is a key like others, so that no signal handler has to mend the terminal.
    el_set(line, EL_SETTY, "-d", "-isig", nullptr);
    bind(L"weft-interrupt", L"Give up this line", "^C", [](EditLine* el, std::wint_t) -> unsigned char {
      of(el)->interrupted = true;
      return CC_NEWLINE;
    });
    bind(L"weft-line-feed", L"Insert a line feed", "\\e^M", [](EditLine* el, std::wint_t) -> unsigned char {
      return el_insertstr(el, "\n") == 0 ? CC_REFRESH : CC_ERROR;
    });
    el_set(line, EL_BIND, "\\e^J", "weft-line-feed", nullptr);
    bind(L"weft-paste", L"Insert pasted text", "\\e[200~", &Editor::paste);
    bind(L"weft-complete", L"Complete a command", "^I",
         [](EditLine* el, std::wint_t) -> unsigned char { return of(el)->complete(); });
    el_source(line, nullptr);  // the user's ~/.editrc
  }

  ~Editor() {
    HistEvent event;
    if (history && !file.empty()) ::history(history, &event, H_SAVE, file.c_str());
    if (line) el_end(line);
    if (history) history_end(history);
  }

  static Editor* of(EditLine* el) {
    Editor* self = nullptr;
    el_get(el, EL_CLIENTDATA, &self);
    return self;
  }

  void bind(const wchar_t* name, const wchar_t* help, const char* key, unsigned char (*function)(EditLine*, wint_t)) {
    // The wide function keeps the two names as they are; el_set would keep copies that nothing frees.
    el_wset(line, EL_ADDFN, name, help, function);
    const std::string narrow(name, name + std::wcslen(name));
    el_set(line, EL_BIND, key, narrow.c_str(), nullptr);
  }

  // The next character of stdin. 1: there is one; 0: the input has ended; -1: it failed.
  static int get_key(EditLine* el, wchar_t* key) {
    std::mbstate_t state{};
    for (;;) {
      pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {resize_pipe[0], POLLIN, 0}};
      if (poll(wait, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return -1;
      }
      if (wait[1].revents & POLLIN) of(el)->resize();
      if (wait[0].revents == 0) continue;
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return static_cast<int>(count);
      const std::size_t used = std::mbrtowc(key, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-2)) continue;  // the character has more bytes
      if (used <= 1) return 1;
      state = {};  // bytes that are no character are dropped
    }
  }

  // Terminals break the lines that they show anew. Goes to the first row of what is edited, and draws it again.
  void resize() {
    char bytes[64];
    while (::read(resize_pipe[0], bytes, sizeof bytes) > 0) {
    }
    el_resize(line);
    int columns = 0;
    el_get(line, EL_GETTC, "co", &columns, nullptr);
    const LineInfo* edited = el_line(line);
    std::size_t cells = 2, rows = 0;  // the prompt's
    const std::size_t width = static_cast<std::size_t>(std::max(columns, 1));
    const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(edited->buffer);
    const auto* end = reinterpret_cast<const utf8proc_uint8_t*>(edited->cursor);
    while (at < end) {
      utf8proc_int32_t character = 0;
      at += std::max<utf8proc_ssize_t>(utf8proc_iterate(at, end - at, &character), 1);
      if (character == '\n') {
        rows += cells / width + 1;
        cells = 0;
      } else {
        cells += static_cast<std::size_t>(std::max(utf8proc_charwidth(character), 0));
      }
    }
    rows += cells / width;
    std::fputs("\r", stderr);
    if (rows > 0) std::fprintf(stderr, "\033[%zuA", rows);
    std::fputs("\033[J", stderr);
    el_set(line, EL_REFRESH);
  }

  // After the beginning of a bracket: reads to its end, and inserts all as text.
  static unsigned char paste(EditLine* el, std::wint_t) {
    std::wstring text;
    const std::wstring end(kPasteEnd.begin(), kPasteEnd.end());
    wchar_t key = 0;
    while (!text.ends_with(end)) {
      if (el_wgetc(el, &key) != 1) return CC_EOF;
      text += key == L'\r' ? L'\n' : key;
    }
    text.resize(text.size() - end.size());
    std::erase_if(text, [](wchar_t c) { return (c < L' ' && c != L'\n' && c != L'\t') || c == 0x7f; });
    while (text.ends_with(L'\n')) text.pop_back();
    if (!text.empty() && el_winsertstr(el, text.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  unsigned char complete() {
    const LineInfo* edited = el_line(line);
    const std::string before(edited->buffer, edited->cursor);
    const std::vector<std::string> found = completer(before);
    if (found.empty()) return CC_ERROR;
    const std::string all = common_prefix(found);
    if (all.size() > before.size() && all.starts_with(before)) {
      el_insertstr(line, all.c_str() + before.size());
      return CC_REFRESH;
    }
    if (found.size() == 1) return CC_ERROR;
    std::fputc('\n', stderr);
    for (const std::string& one : found) {
      const std::size_t word = before.rfind(' ') + 1;
      std::fprintf(stderr, "%s\n", one.substr(word, one.find_last_not_of(' ') + 1 - word).c_str());
    }
    el_set(line, EL_REFRESH);
    return CC_NORM;
  }

  void prefill(const std::string& text) {
    el_push(line, (std::string(kPasteBegin) + text + std::string(kPasteEnd)).c_str());
  }

  Event read_part(std::string& text) {
    interrupted = false;
    int length = 0;
    el_set(line, EL_PREP_TERM, 1);      // libedit would show the prompt first: Ctrl-C in between would be a signal
    std::fputs("\033[?2004h", stderr);  // bracket pasted text
    const char* typed = el_gets(line, &length);
    std::fputs("\033[?2004l", stderr);
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
    return Event::line;
  }

  Event read(std::string& text) {
    text.clear();
    bool quoted = false;
    for (continuing = false;; continuing = true) {
      std::string part;
      if (const Event event = read_part(part); event != Event::line) return event;
      const bool begins = !continuing && part.starts_with(kQuotes);
      if (begins) {
        quoted = true;
        part.erase(0, kQuotes.size());
      }
      const bool ends = quoted && part.ends_with(kQuotes);
      if (ends) part.resize(part.size() - kQuotes.size());
      const bool goes_on = !quoted && part.ends_with('\\');
      if (goes_on) part.pop_back();
      text += part;
      if (ends || (!quoted && !goes_on)) break;
      if (!begins || !part.empty()) text += '\n';
    }
    if (quoted && text.ends_with('\n')) text.pop_back();
    HistEvent event;
    if (text.find_first_not_of(" \t\n") != std::string::npos) ::history(history, &event, H_ENTER, text.c_str());
    return Event::line;
  }
};

LineReader::LineReader(Completer completer) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) editor_ = std::make_unique<Editor>(std::move(completer));
}

LineReader::~LineReader() = default;

void LineReader::prefill(const std::string& text) { editor_->prefill(text); }

LineReader::Event LineReader::read(std::string& line) {
  if (editor_) return editor_->read(line);
  if (!std::getline(std::cin, line)) return Event::end;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return Event::line;
}

}  // namespace weft::cli
