// How models mark their calls and their reasoning, and which of these marks a model's chat template teaches.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/calls.h"

namespace weft {

// A part of an answer that has calls.
struct CallSection {
  std::string_view open, close;  // close may be empty, and models leave it out
  bool includes_open = false;    // the opening mark is the beginning of the first call
  bool begins_line = false;      // only at the begin of a line
  CallForms forms = {};
  std::string_view between = {};  // what may stand between calls, besides spaces and , ; ]
  std::string_view sign = {};     // only for templates that have this text; empty: for all
};
std::span<const CallSection> call_sections();

// Calls as tags: one for the function, one for each parameter.
struct TagNotation {
  std::string_view function, parameter;  // the beginnings of tags, before the name
  std::string_view name_end;             // after the name; then attributes may follow, and ">"
  std::string_view parameter_close, function_close;
  std::string_view line;        // after a tag that others follow
  std::string_view value_line;  // around a parameter's text
  bool typed = false;           // parameters tell whether they are strings: string="true"
};
std::span<const TagNotation> tag_notations();
// The one that the template teaches; nullptr: none.
const TagNotation* tag_notation(std::string_view chat_template);

// A part of an answer that is reasoning: its marks.
struct ReasoningMarks {
  std::string_view open, close;
  std::string_view answer = {};  // header that the answer begins with; empty: it has none
};
// The marks of reasoning in the template; nullptr: it has none.
const ReasoningMarks* reasoning_marks(std::string_view chat_template);

// The beginning and the end of reasoning, as a model would write them. The end has the header of the answer.
std::string opening(const ReasoningMarks& marks);
std::string closing(const ReasoningMarks& marks);
// The header of an answer without reasoning, after the mark that the prompt has begun.
std::string_view header(const ReasoningMarks& marks);

// The mark of a part of the answer that a prompt with this end, with the names of control tokens, has begun; "": none.
std::string begun_part(std::string_view prompt_end, std::string_view chat_template);

// A text around an answer that is no part of it ("<|START_RESPONSE|>"), for templates that have `sign`.
struct Wrapper {
  std::string_view text, sign;
};
std::span<const Wrapper> wrappers();

// Channels as in OpenAI's harmony, where each part of an answer begins with a header.
bool has_channels(std::string_view chat_template);

// All marks that may be control tokens of a model. Their names must be in the text that a Reader gets.
std::vector<std::string> marks();

}  // namespace weft
