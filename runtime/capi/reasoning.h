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
  Reasoning(const Tokenizer& tokenizer, const weft_reasoning_options& options)
      : tokenizer_(tokenizer), options_(options), marks_(reasoning_marks(tokenizer.chat_template())) {}

  void set(const weft_reasoning_options& options) { options_ = options; }
  const weft_reasoning_options& options() const { return options_; }
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
  bool exhausted() const { return marks_ && reasons() && options_.max_tokens > 0 && tokens_ >= options_.max_tokens; }

 private:
  Told tell(const std::vector<Reader::Event>& events) const;

  const Tokenizer& tokenizer_;
  weft_reasoning_options options_;
  const ReasoningMarks* const marks_;  // nullptr: the model has none, or others
  std::optional<Reader> reader_;       // of the present answer
  std::optional<bool> resumed_;
  bool begun_ = false;
  uint32_t tokens_ = 0;  // of the answer with its reasoning
};

}  // namespace weft::capi
