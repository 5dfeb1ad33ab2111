// Splits what a model writes into its answer, its reasoning and its calls, while it comes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/calls.h"
#include "chat/notations.h"

namespace weft {

struct ReaderOptions {
  Tools tools;                // that the model may call; empty: none
  std::string chat_template;  // the model's; "" reads no reasoning
  std::string begun;          // the part of the answer that the prompt ends with
  bool several_calls = true;  // else only the first one counts
  // Arguments of at least this size are passed on before they are complete. If they turn out to have a flaw, the part
  // before it stays as it was passed on, and the rest is text.
  size_t told_early = SIZE_MAX;
};

// One thread at a time.
class Reader {
 public:
  enum class Kind { text, reasoning, call, arguments };
  struct Event {
    Kind kind = Kind::text;
    std::string text;  // of the answer or the reasoning; a call's arguments, or more of the last call's arguments
    std::string name;  // a call's function
    size_t end = 0;    // bytes that the model has written up to here, without `begun`
  };

  explicit Reader(ReaderOptions options);

  // Takes more of what the model writes, with the names of control tokens that marks() has. Returns what is known.
  std::vector<Event> push(std::string_view text);
  // There is no more.
  std::vector<Event> finish();
  // True after a beginning of reasoning without its end.
  bool reasons() const { return mode_ == Mode::reasoning; }
  // True if there is text that is not told yet, because it may be part of a call.
  bool holds() const { return !held_.empty(); }

 private:
  enum class Mode { answer, reasoning, section };
  struct Mark;

  std::vector<Event> read(bool last);
  bool step(bool last);
  bool read_answer(bool last);
  bool read_reasoning(bool last);
  bool read_section(bool last);
  bool read_channel(bool last);
  bool try_section(const CallSection& section, bool last);
  Progress try_call(const CallSection& section, size_t begin, bool last);
  void tell_early(const ReadCall& read);
  std::optional<Mark> next_mark(bool last) const;
  size_t skip_between(const CallSection& section, size_t at, std::string_view others, bool last) const;
  bool allows(const CallSection& section) const;
  void tell_text(size_t length);
  void tell_call(const ReadCall& read);
  void drop(size_t length);
  void emit(Kind kind, std::string text, std::string name = {});

  const ReaderOptions options_;
  const ReasoningMarks* const reasoning_;
  const bool channels_;
  Mode mode_ = Mode::answer;
  const CallSection* section_ = nullptr;  // that is being read, or tried at the begin of `held_`
  std::string_view reasoning_end_;
  std::string held_;        // not told yet
  size_t offset_ = 0;       // of `held_`
  size_t next_try_ = 0;     // bytes of `held_` that are worth another look
  size_t told_ = 0;         // bytes of the present call's arguments
  size_t calls_ = 0;        // told
  bool call_open_ = false;  // the present call was told before it was whole
  bool line_begin_ = true;
  bool drops_spaces_ = false;  // spaces before the next text are none of it
  bool said_ = false;          // there was a text
  std::vector<Event> events_;
};

}  // namespace weft
