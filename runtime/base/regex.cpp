#include "base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <algorithm>

#include "base/error.h"
#include "base/oniguruma.h"
#include "base/utf8.h"
#include "base/wanted.h"

namespace weft {

namespace {

constexpr size_t kMaxPattern = 64 * 1024;
constexpr uint32_t kHeapLimitKiB = 256 * 1024;

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return "PCRE2 error " + std::to_string(code);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

// PCRE2 limits each match, and its compiled code does not count what it only looks through: many matches that each look
// through the whole text pass every limit. So there is a limit on the thread's time, far above what good patterns take.
class Regex::Deadline {
 public:
  explicit Deadline(size_t bytes) : end_(now() + 2 + 4e-6 * static_cast<double>(bytes)) {}
  bool passed() { return ++calls_ % 32 == 0 && now() > end_; }

 private:
  static double now() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  double end_;
  uint32_t calls_ = 0;
};

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  bool jit = false;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, std::string place) : pattern_(pattern), place_(std::move(place)) {
  if (pattern.size() > kMaxPattern) {
    throw Error(
        Code::bad_file,
        "a pattern of " + std::to_string(pattern.size()) + " bytes is longer than " + std::to_string(kMaxPattern),
        place_);
  }
  auto code = std::make_shared<Compiled>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string translated = pcre2_pattern(pattern, place_);
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (code->code == nullptr) {
    throw Error(Code::bad_file,
                "the pattern " + in_quotes(translated) + " is wrong at byte " + std::to_string(offset) + ": " +
                    pcre2_message(error),
                place_);
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  code_ = std::move(code);
}

std::vector<Span> Regex::find_all(std::string_view text) const {
  std::vector<Span> spans;
  Deadline deadline(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const size_t good = valid_utf8_prefix(text.substr(at));
    if (good > 0) find_in_valid(text.substr(at, good), at, deadline, spans);
    at += good;
    while (at < text.size() && !first_utf8(text.substr(at)).valid) at += first_utf8(text.substr(at)).size;
  }
  return spans;
}

void Regex::find_in_valid(std::string_view text, size_t base, Deadline& deadline, std::vector<Span>& spans) const {
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(pcre2_match_context_create(nullptr),
                                                                               pcre2_match_context_free);
  if (!data || !context) throw Error(Code::out_of_memory, "no memory to match a pattern", place_);
  // A good pattern backtracks in proportion to the text (a long run of spaces); a hostile one more than that.
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(1000000 + 16 * text.size(), UINT32_MAX)));
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  WantedRounds rounds;
  size_t at = 0;
  while (at < text.size()) {
    rounds.next();
    int found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its backtracking points on the heap
      found = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(),
                          context.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) {
      throw Error(Code::bad_file,
                  "a pattern failed on a text of " + std::to_string(text.size()) + " bytes: " + pcre2_message(found),
                  place_);
    }
    if (deadline.passed()) {
      throw Error(Code::bad_file, "a pattern takes too long on a text of " + std::to_string(text.size()) + " bytes",
                  place_);
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    const size_t begin = ends[0], end = ends[1];
    if (end > begin && begin >= at) {
      spans.push_back({base + begin, base + end});
      at = end;
    } else {  // an empty match: look on from the next character
      at = std::max<size_t>(at, end);
      if (at < text.size()) at += first_utf8(text.substr(at)).size;
    }
  }
}

}  // namespace weft
