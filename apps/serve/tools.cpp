#include "tools.h"

#include <algorithm>

#include "answers.h"

namespace weft::serve {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kSpaces = " \t\r\n";

std::string item(const std::string& list, std::size_t i) { return list + "[" + std::to_string(i) + "]"; }

// A function's name, which OpenAI restricts to these characters.
std::string function_name(Fields& function) {
  const std::string name = text_of(function.need("name"), function.path("name"));
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, good))
    throw bad_field(function.path("name"), "A function's name has 1 to 64 letters, digits, \"_\" and \"-\".");
  return name;
}

const std::string& name_of(const Json& tool) { return tool["function"]["name"].get_ref<const std::string&>(); }

void need_function(Fields& fields) {
  if (text_of(fields.need("type"), fields.path("type")) != "function")
    throw bad_field(fields.path("type"), "The type must be function.");
}

void check_function(Fields& function, std::set<std::string>& names) {
  if (!names.insert(function_name(function)).second)
    throw bad_field(function.path("name"), "Two tools have the same name.");
  function.text("description");
  function.boolean("strict");  // schemas are always followed where a call is forced
  const Json* parameters = function.take("parameters");
  if (parameters && !parameters->is_object())
    throw bad_field(function.path("parameters"), "The parameters must be a JSON schema.", "invalid_type");
}

// A function's fields are in a field of their own, or, if flat, beside the type. Returns them in the first form.
Json read_functions(const Json& tools, bool flat) {
  if (!tools.is_array() || tools.empty() || tools.size() > kMostTools)
    throw bad_field("tools", "tools must be an array of 1 to " + std::to_string(kMostTools) + " tools.");
  std::set<std::string> names;
  Json read = Json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], item("tools", i));
    need_function(tool);
    if (flat) {
      check_function(tool, names);
      Json fields = tools[i];
      fields.erase("type");
      read.push_back({{"type", "function"}, {"function", std::move(fields)}});
    } else {
      Fields function(tool.need("function"), tool.path("function"));
      check_function(function, names);
      function.refuse_rest();
      read.push_back(tools[i]);
    }
    tool.refuse_rest();
  }
  return read;
}

// Pointers of a schema that has moved.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_object())
    if (const auto found = schema.find("$ref"); found != schema.end() && found->is_string())
      if (const auto text = found->get<std::string>(); text.starts_with('#')) *found = place + text.substr(1);
  if (schema.is_structured())
    for (Json& part : schema) move_references(part, place);
}

void force_call(const Json& tools, CompletionRequest& request) {
  if (request.task.grammar_kind != WEFT_GRAMMAR_NONE)
    throw bad_field("tool_choice", "A call cannot be forced together with response_format, grammar or regex.");
  request.tool_mode = ToolMode::forced;
  request.task.grammar_kind = WEFT_GRAMMAR_JSON_SCHEMA;
  request.task.grammar = call_schema(tools).dump();
  request.task.grammar_field = "tools";
}

}  // namespace

Json call_schema(const Json& tools) {
  Json forms = Json::array();
  for (const Json& tool : tools) {
    Json arguments = tool["function"].value("parameters", Json());
    if (arguments.empty()) arguments = {{"type", "object"}, {"additionalProperties", false}};
    if (arguments.contains("properties") && !arguments.contains("type")) arguments["type"] = "object";
    move_references(arguments, "#/anyOf/" + std::to_string(forms.size()) + "/properties/arguments");
    forms.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", name_of(tool)}}}, {"arguments", arguments}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  return {{"anyOf", forms}};
}

void read_tools(Fields& fields, CompletionRequest& request) {
  const bool flat = request.form == Form::response;
  request.several_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.take("tools");
  const Json* choice = fields.take("tool_choice");
  if (!given || (flat && *given == Json::array())) {
    if (choice && *choice != "none" && !(flat && *choice == "auto"))
      throw bad_field("tool_choice", "tool_choice requires tools.");
    return;
  }
  const Json tools = read_functions(*given, flat);
  if (choice && *choice == "none") return;
  request.tools = tools;
  request.tool_mode = ToolMode::automatic;
  if (!choice || *choice == "auto") return;
  if (*choice == "required") return force_call(tools, request);
  if (choice->is_string()) throw bad_field("tool_choice", "tool_choice must be none, auto, required or a function.");
  Fields named(*choice, "tool_choice");
  need_function(named);
  std::optional<Fields> inner;
  if (!flat) inner.emplace(named.need("function"), named.path("function"));
  Fields& function = flat ? named : *inner;
  const std::string name = function_name(function);
  function.refuse_rest();
  named.refuse_rest();
  const auto found = std::ranges::find_if(tools, [&](const Json& tool) { return name_of(tool) == name; });
  if (found == tools.end()) throw bad_field(function.path("name"), "No tool has this name.");
  force_call(Json::array({*found}), request);
}

Json read_called(Fields& function) {
  const std::string name = function_name(function), place = function.path("arguments");
  try {
    return {{"name", name}, {"arguments", parse_body(text_of(function.need("arguments"), place))}};
  } catch (const RequestError&) {
    throw bad_field(place, place + " must be a string with a JSON object.");
  }
}

Json read_tool_calls(const Json& list, const std::string& path) {
  if (!list.is_array() || list.empty()) throw bad_field(path, path + " must be an array of calls.", "invalid_type");
  Json calls = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    Fields call(list[i], item(path, i));
    need_function(call);
    const std::string id = text_of(call.need("id"), call.path("id"));
    Fields function(call.need("function"), call.path("function"));
    Json called = read_called(function);
    function.refuse_rest();
    call.refuse_rest();
    calls.push_back({{"id", id}, {"type", "function"}, {"function", std::move(called)}});
  }
  return calls;
}

std::string ToolReader::push(const std::string& text) {
  if (mode_ == ToolMode::none) return text;
  held_ += text;
  if (mode_ == ToolMode::forced) return {};
  // Spaces before a call belong to it.
  std::size_t begin = held_.find(kOpen);
  for (std::size_t tail = std::min(held_.size(), kOpen.size() - 1); begin == held_.npos; --tail)
    if (kOpen.starts_with(std::string_view(held_).substr(held_.size() - tail))) begin = held_.size() - tail;
  while (begin > 0 && kSpaces.find(held_[begin - 1]) != kSpaces.npos) --begin;
  std::string known = held_.substr(0, begin);
  held_.erase(0, begin);
  return known;
}

ToolReader::End ToolReader::finish() {
  Json calls = Json::array();
  const std::string held = std::exchange(held_, {});
  if (!(mode_ == ToolMode::forced ? add_call(held, calls) : parse_calls(held, calls))) return {held, Json::array()};
  if (!several_) calls.erase(calls.begin() + 1, calls.end());
  return {{}, std::move(calls)};
}

// The whole text must be calls.
bool ToolReader::parse_calls(std::string_view text, Json& calls) const {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (text.empty()) return !calls.empty();
    if (!text.starts_with(kOpen)) return false;
    const std::size_t end = text.find(kClose);
    if (end == text.npos || !add_call(std::string(text.substr(kOpen.size(), end - kOpen.size())), calls)) return false;
    text.remove_prefix(end + kClose.size());
  }
}

// {"name": "...", "arguments": {...}}, and nothing else.
bool ToolReader::add_call(const std::string& text, Json& calls) const {
  Json call;
  try {
    call = parse_body(text);
  } catch (const RequestError&) {
    return false;
  }
  if (call.size() != 2 || !call.contains("name") || !call.contains("arguments") || !call["arguments"].is_object())
    return false;
  if (std::ranges::none_of(tools_, [&](const Json& tool) { return call["name"] == name_of(tool); })) return false;
  calls.push_back({{"id", "call_" + random_name()},
                   {"type", "function"},
                   {"function", {{"name", call["name"]}, {"arguments", call["arguments"].dump()}}}});
  return true;
}

}  // namespace weft::serve
