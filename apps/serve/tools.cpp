#include "tools.h"

#include <algorithm>
#include <random>

#include "answers.h"
#include "base/json_digits.h"

namespace weft::serve {
namespace {

constexpr JsonLimits kSchemaLimits = {std::uint64_t{1} << 28, std::uint64_t{1} << 24, 100};

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
      read.push_back({{"type", "function"}, {"function", tools[i]["function"]}});
    }
    tool.ignore({"cache_control"});
    tool.refuse_rest();
  }
  return read;
}

// tools: those that may be called.
void force_call(const Json& tools, CompletionRequest& request) {
  if (request.task.grammar_kind != WEFT_GRAMMAR_NONE)
    throw bad_field("tool_choice", "A call cannot be forced together with response_format, grammar or regex.");
  request.tool_mode = ToolMode::forced;
  request.callable = tools;
}

}  // namespace

void read_tools(Fields& fields, CompletionRequest& request) {
  const bool flat = request.form == Form::response;
  request.several_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.take("tools");
  const Json* choice = fields.take("tool_choice");
  if (!given || *given == Json::array()) {
    if (choice && *choice != "none" && *choice != "auto") throw bad_field("tool_choice", "tool_choice requires tools.");
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
  const Json& arguments = function.need("arguments");
  if (arguments.is_object()) return {{"name", name}, {"arguments", bytes_of(arguments)}};
  const std::string text = text_of(arguments, place);
  if (text.empty()) return {{"name", name}, {"arguments", "{}"}};
  try {
    parse_body(text);
  } catch (const RequestError&) {
    throw bad_field(place, place + " must be a string with a JSON object.");
  }
  return {{"name", name}, {"arguments", text}};
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
    function.ignore({"parsed_arguments"});  // of OpenAI's clients
    function.refuse_rest();
    call.ignore({"index", "provider_specific_fields", "extra_content", "cache_control"});
    call.refuse_rest();
    calls.push_back({{"id", id}, {"type", "function"}, {"function", std::move(called)}});
  }
  return calls;
}

ReaderOptions reader_options(const CompletionRequest& request, const std::string& chat_template) {
  constexpr std::size_t kToldEarly = 256;  // shorter arguments come whole
  ReaderOptions options;
  options.chat_template = chat_template;
  options.several_calls = request.several_calls;
  if (request.stream) options.told_early = request.tool_mode == ToolMode::forced ? 0 : kToldEarly;
  if (request.tool_mode == ToolMode::none) return options;
  for (const Json& tool : request.tool_mode == ToolMode::forced ? request.callable : request.tools) {
    const Json parameters = tool["function"].value("parameters", Json());
    options.tools.push_back({name_of(tool), parse_json_digits(bytes_of(parameters), kSchemaLimits,
                                                              Code::invalid_argument, "tools", Digits::all)});
  }
  return options;
}

std::string call_id() {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 9; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace weft::serve
