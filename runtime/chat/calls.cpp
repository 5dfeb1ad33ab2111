#include "chat/calls.h"

#include <algorithm>

#include "base/error.h"
#include "chat/literals.h"
#include "chat/notations.h"
#include "chat/value_types.h"

namespace weft {
namespace {

constexpr std::string_view kDeepSeekBegin = "<｜tool▁call▁begin｜>", kDeepSeekName = "<｜tool▁sep｜>",
                           kKimiBegin = "<|tool_call_begin|>", kSolarBegin = "<|tool_call:begin|>";

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// done: the text continues with `expected` at this place. more: it may, but ends before that is known.
Progress follows(std::string_view text, size_t at, std::string_view expected) {
  const std::string_view rest = text.substr(std::min(at, text.size()));
  if (rest.starts_with(expected)) return Progress::done;
  return expected.starts_with(rest) ? Progress::more : Progress::wrong;
}

class CallReader {
 public:
  CallReader(std::string_view text, size_t begin, const Tools& tools, CallForms forms)
      : text_(text), at_(begin), tools_(tools), forms_(forms) {}
  ReadCall run() {
    const Progress progress = call();
    return {progress, at_, std::move(call_), arguments_};
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  void spaces() { at_ = skip_space(text_, at_); }
  const Tool* tool(std::string_view name) const {
    const auto found = std::ranges::find_if(tools_, [&](const Tool& one) { return one.name == name; });
    return found == tools_.end() ? nullptr : &*found;
  }
  bool begins_a_name(std::string_view begun) const {
    return std::ranges::any_of(tools_, [&](const Tool& one) { return one.name.starts_with(begun); });
  }
  Progress skip(std::string_view expected) {
    const Progress found = follows(text_, at_, expected);
    if (found == Progress::done) at_ += expected.size();
    return found;
  }

  Progress call();
  Progress json_call();
  Progress json_member(const std::string& name, bool& has_arguments);
  Progress json_arguments();
  Progress known_name();
  Progress named_call();
  Progress named_literals(char equals, char close);
  Progress function_tag(const TagNotation& tags);
  Progress parameters(const TagNotation& tags);
  Progress parameter(const TagNotation& tags);
  Progress argument_tags();
  Progress deepseek();
  Progress kimi();
  Progress solar();
  uint32_t types_of(std::string_view name) const;  // of values of the parameter
  void add_values(std::string_view object);
  void add_member(std::string_view name, std::string_view json);
  void add_value(std::string_view name, std::string_view text, std::string_view attributes = {});

  std::string_view text_;
  size_t at_;
  const Tools& tools_;
  const CallForms forms_;
  Call call_;
  size_t arguments_ = 0;
  int depth_ = 0;  // of calls within calls
};

Progress CallReader::call() {
  if (at_end()) return Progress::more;
  if (text_[at_] == '{') return json_call();
  constexpr std::string_view kGemma = "call:";
  Progress begun = Progress::wrong;  // more: with one of the tags below
  for (const TagNotation& tags : tag_notations()) {
    const Progress found = skip(tags.function);
    if (found == Progress::done) return function_tag(tags);
    if (found == Progress::more) begun = found;
  }
  using Form = Progress (CallReader::*)();
  constexpr std::pair<std::string_view, Form> kForms[] = {
      {kDeepSeekBegin, &CallReader::deepseek}, {kKimiBegin, &CallReader::kimi}, {kSolarBegin, &CallReader::solar}};
  for (const auto& [mark, form] : kForms) {
    const Progress found = skip(mark);
    if (found == Progress::done) return (this->*form)();
    if (found == Progress::more) begun = found;
  }
  if (begun == Progress::more || !forms_.named) return begun;
  if (const Progress found = skip(kGemma); found == Progress::done) {
    if (const Progress name = known_name(); name != Progress::done) return name;
    if (const Progress bracket = skip("{"); bracket != Progress::done) return bracket;
    return named_literals(':', '}');
  } else if (found == Progress::more && !begins_a_name(text_.substr(at_))) {
    return found;
  }
  return named_call();
}

// ---- {"name": ..., "arguments": {...}} ----

Progress CallReader::json_arguments() {
  const Extent extent = json_extent(text_, at_);
  if (extent.progress == Progress::wrong) return Progress::wrong;
  const bool object = text_[at_] == '{';
  arguments_ = at_;
  if (extent.progress == Progress::more) {
    if (object) call_.arguments = text_.substr(at_);
    return object || text_[at_] == '"' || text_[at_] == 'n' ? Progress::more : Progress::wrong;
  }
  const std::string_view value = text_.substr(at_, extent.end - at_);
  at_ = extent.end;
  if (object) {
    call_.arguments = value;
  } else if (value == "null") {
    call_.arguments = "{}";
  } else {  // OpenAI's own form: JSON as a string
    const std::optional<std::string> text = value.starts_with('"') ? json_text(value) : std::nullopt;
    if (!text || !text->starts_with('{')) return Progress::wrong;
    const Extent whole = json_extent(*text, 0);
    if (whole.progress != Progress::done || skip_space(*text, whole.end) != text->size()) return Progress::wrong;
    call_.arguments = *text;
  }
  return Progress::done;
}

Progress CallReader::json_member(const std::string& name, bool& has_arguments) {
  if (name == "arguments" || name == "parameters" || name == "args") {
    if (has_arguments) return Progress::wrong;
    has_arguments = true;
    return json_arguments();
  }
  if (name == "function" && !at_end() && text_[at_] == '{') {
    has_arguments = true;
    return json_call();
  }
  const Extent extent = json_extent(text_, at_);
  if (name == "name" || name == "tool_name" || name == "function") {
    if (extent.progress != Progress::done) return extent.progress;
    const std::optional<std::string> value = json_text(text_.substr(at_, extent.end - at_));
    if (!value || !call_.name.empty() || !tool(*value)) return Progress::wrong;
    call_.name = *value;
  } else if (name != "id" && name != "type" && name != "tool_call_id" && name != "call_id") {
    return Progress::wrong;
  }
  at_ = extent.end;
  return extent.progress;
}

Progress CallReader::json_call() {
  constexpr int kDeepest = 2;  // OpenAI's own form has {"function": {...}}
  if (++depth_ > kDeepest) return Progress::wrong;
  ++at_;
  bool has_arguments = false;
  for (bool first = true;; first = false) {
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] == '}') break;
    if (!first) {
      if (text_[at_] != ',') return Progress::wrong;
      ++at_;
      if (spaces(); at_end()) return Progress::more;
    }
    const Extent name = json_extent(text_, at_);
    if (text_[at_] != '"') return Progress::wrong;
    if (name.progress != Progress::done) return name.progress;
    const std::optional<std::string> member = json_text(text_.substr(at_, name.end - at_));
    at_ = name.end;
    if (spaces(); at_end()) return Progress::more;
    if (!member || text_[at_] != ':') return Progress::wrong;
    ++at_;
    if (spaces(); at_end()) return Progress::more;
    if (forms_.keyed && first && text_[at_] == '{' && tool(*member)) {
      call_.name = *member;
      has_arguments = true;
      if (const Progress read = json_arguments(); read != Progress::done) return read;
      continue;
    }
    if (const Progress read = json_member(*member, has_arguments); read != Progress::done) return read;
  }
  ++at_;
  if (!has_arguments) call_.arguments = "{}";
  return call_.name.empty() ? Progress::wrong : Progress::done;
}

// ---- f{...}, f(...), call:f{...} ----

Progress CallReader::known_name() {
  size_t end = at_;
  while (end < text_.size() && is_name_part(text_[end])) ++end;
  const std::string_view name = text_.substr(at_, end - at_);
  if (end == text_.size()) return begins_a_name(name) ? Progress::more : Progress::wrong;
  if (!tool(name)) return Progress::wrong;
  call_.name = name;
  at_ = end;
  return Progress::done;
}

Progress CallReader::named_literals(char equals, char close) {
  const ReadLiteral read = read_named_values(text_, at_, equals, close);
  at_ = read.end;
  if (read.progress == Progress::done) add_values(read.json);
  return read.progress;
}

Progress CallReader::named_call() {
  if (const Progress name = known_name(); name != Progress::done) return name;
  constexpr std::string_view kId = "[CALL_ID]", kArguments = "[ARGS]", kMethod = ".call(";
  if (const Progress id = skip(kId); id == Progress::done) {
    while (!at_end() && is_name_part(text_[at_])) ++at_;
    if (const Progress found = skip(kArguments); found != Progress::done) return found;
  } else if (const Progress found = skip(kArguments); id == Progress::more || found == Progress::more) {
    return Progress::more;
  }
  if (const Progress method = skip(kMethod); method != Progress::wrong)
    return method == Progress::done ? named_literals('=', ')') : method;
  if (text_[at_] == '(') return ++at_, named_literals('=', ')');
  if (spaces(); at_end()) return Progress::more;
  if (text_[at_] == '{') return json_arguments();
  return text_[at_] == '<' ? argument_tags() : Progress::wrong;
}

// ---- Tags ----

uint32_t CallReader::types_of(std::string_view name) const {
  const Tool* called = tool(call_.name);
  const JsonValue* properties = called ? called->parameters.find("properties") : nullptr;
  const JsonValue* schema = properties ? properties->find(name) : nullptr;
  return schema ? value_types(*schema, called->parameters) : kAnyType;
}

// An object that read_named_values() made. FunctionGemma's template has all values as texts, so a text is a value where
// the schema has no string.
void CallReader::add_values(std::string_view object) {
  size_t at = 1;
  while (object[at] != '}') {
    const size_t name_end = json_extent(object, at).end, begin = name_end + 2;  // after ": "
    const size_t end = json_extent(object, begin).end;
    const std::string name = *json_text(object.substr(at, name_end - at));
    const std::string_view value = object.substr(begin, end - begin);
    if (value.starts_with('"') && (types_of(name) & kTextType) == 0) {
      add_value(name, *json_text(value));
    } else {
      add_member(name, value);
    }
    at = end + (object[end] == ',' ? 2 : 0);
  }
  call_.arguments += call_.arguments.empty() ? "{}" : "}";
}

void CallReader::add_member(std::string_view name, std::string_view json) {
  call_.arguments += call_.arguments.empty() ? "{" : ", ";
  call_.arguments += json_literal(name) + ": ";
  call_.arguments += json;
}

// The type of a value that a text can only be by its form, if not a text itself.
uint32_t type_by_form(std::string_view trimmed) {
  if (trimmed == "None" || trimmed == "null") return kNullType;
  for (const std::string_view word : {"True", "False", "true", "false"})
    if (trimmed == word) return kBooleanType;
  if (trimmed.starts_with('{')) return kObjectType;
  return trimmed.starts_with('[') ? kArrayType : 0;
}

// A parameter's text is JSON, unless its tag or its schema says that it is a string. Where the schema also allows
// others, only texts of their form are values: a number may be a text.
void CallReader::add_value(std::string_view name, std::string_view text, std::string_view attributes) {
  constexpr std::string_view kString = "string=\"true\"", kOther = "string=\"false\"";
  const bool told = attributes.find(kString) != attributes.npos, other = attributes.find(kOther) != attributes.npos;
  const uint32_t types = types_of(name);
  const std::string_view trimmed = [&] {
    const size_t begin = skip_space(text, 0), end = text.find_last_not_of(" \t\r\n");
    return begin == text.size() ? std::string_view() : text.substr(begin, end + 1 - begin);
  }();
  const bool may_be_text = types != kAnyType && (types & kTextType) != 0;
  const Extent json = json_extent(trimmed, 0);
  const std::string padded = std::string(trimmed) + ",";  // which ends a word
  const ReadLiteral literal = read_literal(padded, 0);
  if (told || (may_be_text && !other && (types & type_by_form(trimmed)) == 0)) {
    add_member(name, json_literal(text));
  } else if (json.progress == Progress::done && json.end == trimmed.size()) {
    add_member(name, trimmed);
  } else if (literal.progress == Progress::done && literal.end == trimmed.size()) {
    add_member(name, literal.json);
  } else {
    add_member(name, json_literal(text));
  }
}

// <parameter=x>\n1\n</parameter> ... </function>. A text may hold "</parameter>" itself: it ends where the notation
// goes on.
Progress CallReader::parameters(const TagNotation& tags) {
  for (;;) {
    spaces();
    if (const Progress end = skip(tags.function_close); end != Progress::wrong) {
      if (end == Progress::done) call_.arguments += call_.arguments.empty() ? "{}" : "}";
      return end;
    }
    if (const Progress read = parameter(tags); read != Progress::done) return read;
  }
}

Progress CallReader::parameter(const TagNotation& tags) {
  if (const Progress open = skip(tags.parameter); open != Progress::done) return open;
  const size_t tag_end = text_.find('>', at_);
  if (tag_end == std::string_view::npos) return Progress::more;
  const std::string_view tag = text_.substr(at_, tag_end - at_);
  const size_t name_end = tags.name_end.empty() ? tag.size() : tag.find(tags.name_end);
  if (name_end == tag.npos) return Progress::wrong;
  at_ = tag_end + 1;
  size_t close = text_.find(tags.parameter_close, at_), next = 0;
  for (;; close = text_.find(tags.parameter_close, close + 1)) {
    if (close == std::string_view::npos) return Progress::more;
    next = skip_space(text_, close + tags.parameter_close.size());
    const Progress other = follows(text_, next, tags.parameter), end = follows(text_, next, tags.function_close);
    if (other == Progress::more || end == Progress::more) return Progress::more;
    if (other == Progress::done || end == Progress::done) break;
  }
  std::string_view value = text_.substr(at_, close - at_);
  if (!tags.value_line.empty() && !forms_.inline_values) {
    if (value.starts_with(tags.value_line)) value.remove_prefix(tags.value_line.size());
    if (value.ends_with(tags.value_line)) value.remove_suffix(tags.value_line.size());
  }
  constexpr std::string_view kData = "<![CDATA[", kDataEnd = "]]>";
  if (value.starts_with(kData) && value.ends_with(kDataEnd) && value.size() >= kData.size() + kDataEnd.size())
    value = value.substr(kData.size(), value.size() - kData.size() - kDataEnd.size());
  add_value(tag.substr(0, name_end), value, tag.substr(name_end));
  at_ = next;
  return Progress::done;
}

Progress CallReader::function_tag(const TagNotation& tags) {
  if (const Progress name = known_name(); name != Progress::done) return name;
  if (const Progress end = skip(tags.name_end); end != Progress::done) return end;
  if (const Progress bracket = skip(">"); bracket != Progress::done) return bracket;
  if (spaces(); at_end()) return Progress::more;
  if (text_[at_] == '{') return json_arguments();
  const Progress read = parameters(tags);
  if (read != Progress::done) call_.arguments.clear();
  return read;
}

Progress CallReader::argument_tags() {
  constexpr std::string_view kKey = "<arg_key>", kKeyEnd = "</arg_key>", kValue = "<arg_value>",
                             kValueEnd = "</arg_value>", kEnd = "</tool_call>";
  Progress read = Progress::more;
  for (;;) {
    spaces();
    if (read = skip(kKey); read != Progress::done) break;
    const size_t name_end = text_.find(kKeyEnd, at_);
    if (read = Progress::more; name_end == std::string_view::npos) break;
    const std::string_view name = text_.substr(at_, name_end - at_);
    at_ = skip_space(text_, name_end + kKeyEnd.size());
    if (read = skip(kValue); read != Progress::done) break;
    const size_t end = text_.find(kValueEnd, at_);
    if (read = Progress::more; end == std::string_view::npos) break;
    add_value(name, text_.substr(at_, end - at_));
    at_ = end + kValueEnd.size();
  }
  if (const Progress end = follows(text_, at_, kEnd); call_.arguments.empty() && end != Progress::wrong) {
    if (end == Progress::done) call_.arguments = "{}";
    return end;
  }
  const bool ends = read == Progress::wrong && !call_.arguments.empty();
  if (!ends) return call_.arguments.clear(), read;
  call_.arguments += '}';
  return Progress::done;
}

Progress CallReader::deepseek() {
  const size_t name_end = text_.find(kDeepSeekName, at_);
  if (name_end == std::string_view::npos) return Progress::more;
  const std::string_view kind = text_.substr(at_, name_end - at_);
  at_ = name_end + kDeepSeekName.size();
  const bool older = kind == "function" && !(!at_end() && text_[at_] == '{' && tool(kind));
  if (older) {
    if (const Progress name = known_name(); name != Progress::done) return name;
    at_ = text_.find('{', at_);
    if (at_ == std::string_view::npos) return Progress::more;
  } else {
    if (!tool(kind)) return Progress::wrong;
    call_.name = kind;
    if (spaces(); at_end()) return Progress::more;
    if (text_[at_] != '{') return Progress::wrong;
  }
  return json_arguments();
}

// functions.f:0<|tool_call_argument_begin|>{...}
Progress CallReader::kimi() {
  constexpr std::string_view kPlace = "functions.", kArguments = "<|tool_call_argument_begin|>";
  if (spaces(); skip(kPlace) == Progress::more) return Progress::more;
  if (const Progress name = known_name(); name != Progress::done) return name;
  const size_t end = text_.find_first_not_of(":0123456789 ", at_);
  if (end == std::string_view::npos) return Progress::more;
  at_ = end;
  if (const Progress found = skip(kArguments); found != Progress::done) return found;
  if (spaces(); at_end()) return Progress::more;
  return text_[at_] == '{' ? json_arguments() : Progress::wrong;
}

// ID<|tool_call:name|>f<|tool_call:args|>{...}
Progress CallReader::solar() {
  constexpr std::string_view kName = "<|tool_call:name|>", kArguments = "<|tool_call:args|>";
  while (!at_end() && is_name_part(text_[at_])) ++at_;
  if (const Progress found = skip(kName); found != Progress::done) return found;
  if (const Progress name = known_name(); name != Progress::done) return name;
  if (const Progress found = skip(kArguments); found != Progress::done) return found;
  if (spaces(); at_end()) return Progress::more;
  return text_[at_] == '{' ? json_arguments() : Progress::wrong;
}

}  // namespace

ReadCall read_call(std::string_view text, size_t begin, const Tools& tools, CallForms forms) {
  return CallReader(text, begin, tools, forms).run();
}

}  // namespace weft
