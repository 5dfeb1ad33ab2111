// One call of a function as a model writes it, in any notation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "chat/json_extent.h"

namespace weft {

// A function that a model may call.
struct Tool {
  std::string name;
  JsonValue parameters;  // a JSON schema of an object, read with Digits::all; null: it has none
};
using Tools = std::vector<Tool>;

struct Call {
  std::string name;
  // A JSON object: the model's own bytes where it wrote JSON, else in this form with the model's numbers.
  std::string arguments;
};

struct ReadCall {
  Progress progress = Progress::wrong;
  size_t end = 0;  // done: after the call
  Call call;  // done: the whole. more: once a name is known, the arguments so far, if they are the text's own bytes
  size_t arguments = 0;  // where these begin in the text
};

// Forms of calls that only some sections of an answer have.
struct CallForms {
  bool named = false;          // calls may begin with the function's name itself
  bool keyed = false;          // {f: {...}}
  bool inline_values = false;  // a parameter's text begins directly after its tag, not in the next line
};

// Reads a call that begins at text[begin], which is no space:
//   {"name": f, "arguments" or "parameters": {...}}, also with "tool_name", "type", "id", and within "function"
//   {f: {...}}
//   f{...}, f[ARGS]{...}, f[CALL_ID]x[ARGS]{...}, f and an object in the next line
//   f(x=1, y='a') and f.call(x=1), with Python's literals
//   call:f{x:1,y:<|"|>a<|"|>}, with <escape> too
//   <function=f><parameter=x>1</parameter></function> and the other tag_notations(), and <function=f>{...}
//   f<arg_key>x</arg_key><arg_value>1</arg_value>, and f</tool_call>
//   <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}, and DeepSeek's older form: function<｜tool▁sep｜>f, a fence and an
//   object
//   <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}
//   <|tool_call:begin|>ID<|tool_call:name|>f<|tool_call:args|>{...}
// The function must be one of the tools.
ReadCall read_call(std::string_view text, size_t begin, const Tools& tools, CallForms forms);

}  // namespace weft
