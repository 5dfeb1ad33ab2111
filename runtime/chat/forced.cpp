#include "chat/forced.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "base/json_digits.h"
#include "base/utf8.h"
#include "chat/notations.h"

namespace weft {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A text as GBNF has it.
std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "\"";
}

// JSON with its members in their order, in which models are to write them.
std::string json_of(const JsonValue& value) {
  if (const auto digits = long_number(value)) return std::string(*digits);
  if (!value.is_structured()) return value.dump();
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  if (value.is_array()) {
    for (const JsonValue& item : value.items()) add(json_of(item));
    return "[" + text + "]";
  }
  for (const auto& [name, member] : value.members()) add(json_literal(name) + ":" + json_of(member));
  return "{" + text + "}";
}

JsonValue schema_of(const Tool& tool) {
  const JsonValue& given = tool.parameters;
  if (!given.is_object() || given.empty()) return JsonValue({{"type", "object"}, {"additionalProperties", false}});
  JsonValue schema = given;
  if (schema.contains("properties") && !schema.contains("type")) schema["type"] = "object";
  return schema;
}

std::string arguments(const Tool& tool) { return "%json " + json_of(schema_of(tool)); }

// One alternative for each tool.
std::string choice(const Tools& tools, const std::function<std::string(const Tool&)>& form) {
  std::string rules = "root ::= ";
  for (const Tool& tool : tools) rules += (&tool == tools.data() ? "" : " | ") + form(tool);
  return rules + "\n";
}

// An object with the function's name and its arguments.
ForcedCall object(const Tools& tools, std::string begun, std::string_view before, std::string_view between) {
  return {std::move(begun), choice(tools, [&](const Tool& tool) {
            return literal("{" + std::string(before) + "\"" + tool.name + "\"" + std::string(between)) + " " +
                   arguments(tool) + " \"}\"";
          })};
}

ForcedCall object(const Tools& tools, std::string begun) {
  return object(tools, std::move(begun), "\"name\": ", ", \"arguments\": ");
}

// The function's name and an object. A single name belongs to the beginning, where marks are control tokens.
ForcedCall named(const Tools& tools, const std::string& begun, const std::string& between) {
  if (tools.size() == 1) return {begun + tools[0].name + between, "root ::= " + arguments(tools[0]) + "\n"};
  return {begun, choice(tools, [&](const Tool& tool) { return literal(tool.name + between) + " " + arguments(tool); })};
}

// <function=f>{...}</function>
ForcedCall function_tags(const Tools& tools) {
  return {"", choice(tools, [](const Tool& tool) {
            return literal("<function=" + tool.name + ">") + " " + arguments(tool) + " \"</function>\"";
          })};
}

// ---- Arguments one by one ----

struct Parameter {
  std::string name;
  JsonValue schema;
  bool required = false;
};

// The parameters of a function, if its schema is a plain list of them.
bool parameters(const Tool& tool, std::vector<Parameter>& list) {
  const JsonValue schema = schema_of(tool);
  const JsonValue* properties = schema.find("properties");
  for (const auto& [name, value] : schema.members()) {
    if (name == "type" && !(value.is_string() && value.text() == "object")) return false;
    constexpr std::string_view kPlain[] = {"type",    "properties",  "required", "additionalProperties", "$defs",
                                           "$schema", "definitions", "title",    "description"};
    if (std::ranges::find(kPlain, name) == std::end(kPlain)) return false;
  }
  if (properties && !properties->is_object()) return false;
  if (const std::string text = json_of(schema); has(text, "\"#/properties") || has(text, "\"#\"")) return false;
  const JsonValue* required = schema.find("required");
  const auto is_required = [&](const std::string& name) {
    return required && required->is_array() && std::ranges::any_of(required->items(), [&](const JsonValue& item) {
             return item.is_string() && item.text() == name;
           });
  };
  if (!properties) return true;
  for (const auto& [name, value] : properties->members()) {
    if (!value.is_object()) return false;
    Parameter& parameter = list.emplace_back(Parameter{name, value, is_required(name)});
    for (const char* const definitions : {"$defs", "definitions"})
      if (const JsonValue* shared = schema.find(definitions)) parameter.schema[definitions] = *shared;
  }
  return true;
}

bool is_text(const JsonValue& schema) {
  const JsonValue* type = schema.find("type");
  return type && type->is_string() && type->text() == "string";
}

// A string of which the schema says no more.
bool is_any_text(const JsonValue& schema) {
  return is_text(schema) && std::ranges::none_of(schema.members(), [](const auto& member) {
           constexpr std::string_view kMore[] = {"enum", "const", "pattern", "format", "minLength", "maxLength"};
           return std::ranges::find(kMore, member.name) != std::end(kMore);
         });
}

// The texts of an enum; empty without one, or if it has other values.
std::string listed(const JsonValue& schema) {
  const JsonValue* values = schema.find("enum");
  std::string texts;
  if (!values || !values->is_array()) return texts;
  for (const JsonValue& value : values->items()) {
    if (!value.is_string() || long_number(value) || value.text().find_first_not_of("\t\n") == std::string::npos)
      return {};
    texts += (texts.empty() ? "" : " | ") + literal(value.text());
  }
  return texts;
}

// The rule `text`: texts without the tag, which begins with the only < in it. `text-i` has read i characters of the
// tag.
std::string texts_without(std::string_view tag) {
  std::vector<std::string> codes;  // \U0000003C
  for (size_t at = 0; at < tag.size();) {
    const Utf8Char next = first_utf8(tag.substr(at));
    char code[16];
    std::snprintf(code, sizeof(code), "\\U%08X", static_cast<unsigned>(next.code));
    codes.emplace_back(code);
    at += next.size;
  }
  const auto name = [](size_t i) { return i == 0 ? std::string("text") : "text-" + std::to_string(i); };
  std::string rules = "text ::= [^<] text | \"<\" text-1 | \"\"\n";
  for (size_t i = 1; i < codes.size(); ++i) {
    rules += name(i) + " ::= [^<" + codes[i] + "] text | \"<\" text-1 | \"\"";
    if (i + 1 < codes.size()) rules += " | [" + codes[i] + "] " + name(i + 1);
    rules += "\n";
  }
  return rules;
}

// Texts around names and values of a call in tags.
struct Tags {
  std::string begun, function, function_end, parameter, string_end, other_end, value_end, end;
};

// False if a schema cannot be written so.
bool tags(const Tools& tools, const Tags& with, ForcedCall& call) {
  std::string root;
  for (const Tool& tool : tools) {
    std::vector<Parameter> list;
    if (!parameters(tool, list)) return false;
    std::string form = literal(with.function + tool.name + with.function_end);
    for (const Parameter& parameter : list) {
      const std::string texts = listed(parameter.schema);
      const bool text = is_text(parameter.schema);
      if (text && texts.empty() && !is_any_text(parameter.schema)) return false;
      const std::string value = !text           ? "%json " + json_of(parameter.schema)
                                : texts.empty() ? "text"
                                                : "(" + texts + ")";
      const std::string part = literal(with.parameter + parameter.name + (text ? with.string_end : with.other_end)) +
                               " " + value + " " + literal(with.value_end);
      form += parameter.required ? " " + part : " (" + part + ")?";
    }
    root += (root.empty() ? "" : " | ") + form + " " + literal(with.end);
  }
  std::string_view close = with.value_end;
  while (close.starts_with('\n')) close.remove_prefix(1);
  while (close.ends_with('\n')) close.remove_suffix(1);
  call = {with.begun, "root ::= " + root + "\n" + texts_without(close)};
  return true;
}

bool tags(const Tools& tools, const TagNotation& notation, std::string begun, std::string_view value_line,
          ForcedCall& call) {
  const std::string name_end(notation.name_end), line(notation.line), around(value_line), close = ">" + around;
  return tags(tools,
              {std::move(begun), std::string(notation.function), name_end + ">" + line, std::string(notation.parameter),
               name_end + (notation.typed ? " string=\"true\"" : "") + close,
               name_end + (notation.typed ? " string=\"false\"" : "") + close,
               around + std::string(notation.parameter_close) + line, std::string(notation.function_close)},
              call);
}

// GLM's: f<arg_key>x</arg_key><arg_value>1</arg_value>, in one line or with a line for each tag.
bool argument_tags(const Tools& tools, std::string_view chat_template, ForcedCall& call) {
  const bool lines = has(chat_template, "</arg_key>\n") || has(chat_template, "</arg_key>\\n");
  const std::string line = lines ? "\n" : "", name_end = "</arg_key>" + line + "<arg_value>";
  return tags(tools, {"<tool_call>", "", line, "<arg_key>", name_end, name_end, "</arg_value>" + line, "</tool_call>"},
              call);
}

// The section that the template has calls in tags in.
std::string tag_section(const TagNotation& notation, std::string_view chat_template) {
  if (notation.typed)
    return has(chat_template, "function_calls>") ? "<｜DSML｜function_calls>\n" : "<｜DSML｜tool_calls>\n";
  for (const char* const mark : {"<minimax:tool_call>", "<seed:tool_call>", "<tool_call>"})
    if (has(chat_template, mark)) return std::string(mark) + "\n";
  return {};
}

// NAME=VALUE, ... with the commas where they belong.
bool values(const Tools& tools, const std::string& before, std::string_view equals, std::string_view open,
            std::string_view close, ForcedCall& call) {
  std::string rules;
  for (size_t t = 0; t < tools.size(); ++t) {
    std::vector<Parameter> list;
    if (!parameters(tools[t], list)) return false;
    const auto rule = [&](size_t i, bool first) {
      return "a" + std::to_string(t) + "-" + std::to_string(i) + (first ? "f" : "r");
    };
    for (size_t i = list.size() + 1; i-- > 0;) {
      for (const bool first : {true, false}) {
        rules += rule(i, first) + " ::= ";
        if (i == list.size()) {
          rules += literal(close) + "\n";
          continue;
        }
        rules += literal((first ? "" : ", ") + list[i].name + std::string(equals)) + " %json " +
                 json_of(list[i].schema) + " " + rule(i + 1, false);
        if (!list[i].required) rules += " | " + rule(i + 1, first);
        rules += "\n";
      }
    }
  }
  call = {before, choice(tools, [&](const Tool& tool) {
                    return literal(tool.name + std::string(open)) + " a" + std::to_string(&tool - tools.data()) + "-0f";
                  }) + rules};
  return true;
}

}  // namespace

ForcedCall forced_call(const Tools& tools, std::string_view chat_template) {
  const auto teaches = [&](std::string_view mark) { return has(chat_template, mark); };
  ForcedCall call;
  if (has_channels(chat_template))
    return named(tools, "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>");
  if (teaches("[TOOL_CALLS]"))
    return teaches("[CALL_ID]") ? named(tools, "[TOOL_CALLS]", "[CALL_ID]000000000[ARGS]")
           : teaches("[ARGS]")  ? named(tools, "[TOOL_CALLS]", "[ARGS]")
                                : object(tools, "[TOOL_CALLS][");
  if (teaches("<|tool_calls_section_begin|>"))
    return named(tools, "<|tool_calls_section_begin|><|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>");
  if (teaches("<|tool_call:begin|>"))
    return named(tools, "<|tool_calls|><|tool_call:begin|>0000000000<|tool_call:name|>", "<|tool_call:args|>");
  if (teaches("<|tools_prefix|>"))
    return {"<|tools_prefix|>[", choice(tools, [&](const Tool& tool) {
              return literal("{\"" + tool.name + "\": ") + " " + arguments(tool) + " \"}\"";
            })};
  if (teaches("<｜tool▁calls▁begin｜>")) {
    const std::string begun = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>";
    return teaches("```json") ? named(tools, begun + "function<｜tool▁sep｜>", "\n```json\n")
                              : named(tools, begun, "<｜tool▁sep｜>");
  }
  if (teaches("<|tool_call>") && values(tools, "<|tool_call>call:", ":", "{", "}", call)) return call;
  if (teaches("<start_function_call>") && values(tools, "<start_function_call>call:", ":", "{", "}", call)) return call;
  // LFM2's templates name the mark of their list of tools, if any.
  if ((teaches("<|tool_call_start|>") || teaches("List of tools: ")) &&
      values(tools, "<|tool_call_start|>[", "=", "(", ")", call))
    return call;
  if (teaches("<|START_ACTION|>"))
    return object(tools, "<|START_ACTION|>[", "\"tool_call_id\": \"0\", \"tool_name\": ", ", \"parameters\": ");
  if (const TagNotation* notation = tag_notation(chat_template)) {
    const std::string begun = tag_section(*notation, chat_template);
    const std::string_view value_line = begun.starts_with("<seed:") ? "" : notation->value_line;
    if (tags(tools, *notation, begun, value_line, call)) return call;
    if (!begun.empty()) return object(tools, begun);
  }
  if (teaches("<arg_key>") && argument_tags(tools, chat_template, call)) return call;
  if (teaches("<function=") && !teaches("<tool_call>")) return function_tags(tools);
  if (teaches("<tool_calls>[")) return object(tools, "<tool_calls>[");
  if (teaches("<tool_call>")) return object(tools, "<tool_call>\n");
  if (teaches("<|tool_call|>")) return object(tools, "<|tool_call|>[");
  if (teaches("<TOOLCALL>")) return object(tools, "<TOOLCALL>[");
  if (teaches("<tool_calls>")) return object(tools, "<tool_calls>\n");
  if (teaches("<|function_call|>")) return object(tools, "<|function_call|>");
  if (teaches("<function_calls>") && values(tools, "<function_calls>", "=", "(", ")", call)) return call;
  if (teaches("<function_call>")) return object(tools, "<function_call> ");
  if (teaches("<|action_start|><|plugin|>")) return object(tools, "<|action_start|><|plugin|>\n");
  if (teaches("functools[")) return object(tools, "functools[");
  if (teaches("Action:\\n```json"))
    return object(tools, "Action:\n```json\n[", "\"tool_name\": ", ", \"parameters\": ");
  if (teaches(">>>")) return named(tools, "", "\n");
  if (teaches("<|python_tag|>") || teaches("\"parameters\":"))
    return object(tools, "", "\"name\": ", ", \"parameters\": ");
  return object(tools, "");
}

}  // namespace weft
