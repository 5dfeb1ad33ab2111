// A session that tells reasoning apart from the answer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "chat/reader.h"
#include "grammar/matcher.h"
#include "session/session.h"
#include "tokenizer/tokenizer.h"
#include "weft/reasoning.h"

namespace weft::capi {

class Reasoning {
 public:
  // The tokenizer outlives it.
  explicit Reasoning(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), marks_(reasoning_marks(tokenizer.chat_template())) {}

  // The most tokens of an answer's reasoning, which is then closed; 0: no limit.
  void set_most_tokens(uint32_t most) { most_tokens_ = most; }
  // The callback (may be NULL) of the call that generates next.
  void listen(weft_reasoning_callback callback, void* user) {
    callback_ = callback;
    user_ = user;
  }
  // The next token begins an answer.
  void reset() {
    reader_.reset();
    resumed_.reset();
  }
  // The next token continues an answer, whose end the context has: within its reasoning, or after it.
  void resume(bool reasons) {
    reset();
    resumed_ = reasons;
  }
  // Called before a generate. context: of the session. grammar: one waits for the end of the reasoning. Returns text
  // that the context then needs: the header of the reasoning.
  std::string begin(std::span<const uint32_t> context, bool grammar);

  struct Told {
    std::string answer;
    bool go_on = true;
  };
  // Takes a generated token and the text that it completes. Tells the callback the reasoning, returns the rest.
  Told push(uint32_t id, const std::string& text);
  Told finish() { return tell(reader_->finish()); }
  // Ends the reasoning, of which `rest` was not told. Returns the text for the context.
  std::string close(const std::string& rest);
  // The same after the model ended it: the header of the answer, if it has one.
  std::string begin_answer();

  bool reasons() const { return reader_->reasons(); }
  // The answer began within the reasoning, which has marks: a grammar waits for its end.
  bool begun() const { return begun_; }
  bool exhausted() const { return marks_ && reasons() && most_tokens_ > 0 && tokens_ >= most_tokens_; }

 private:
  Told tell(const std::vector<Reader::Event>& events) const;

  const Tokenizer& tokenizer_;
  uint32_t most_tokens_ = 0;
  weft_reasoning_callback callback_ = nullptr;
  void* user_ = nullptr;
  const ReasoningMarks* const marks_;  // nullptr: the model has none, or others
  std::optional<Reader> reader_;       // of the present answer
  std::optional<bool> resumed_;
  bool begun_ = false;
  uint32_t tokens_ = 0;  // of the answer with its reasoning
};

}  // namespace weft::capi
