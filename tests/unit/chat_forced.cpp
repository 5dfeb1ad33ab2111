// Forced calls: their grammars are valid, and every text that they allow is a call.
#include "chat/forced.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_digits.h"
#include "chat/reader.h"
#include "grammar/grammar.h"
#include "grammar/grammar_states.h"

namespace weft {
namespace {

JsonValue json(std::string_view text) {
  return parse_json_digits(text, {1 << 20, 1 << 20, 100}, Code::invalid_argument, "a test", Digits::all);
}

Tools some_tools() {
  return {
      {"f", json(R"({"type": "object", "properties": {"x": {"type": "integer"}, "s": {"type": "string"},
                         "e": {"enum": ["a", "b"], "type": "string"}}, "required": ["x"]})")},
      {"foo",
       json(
           R"({"properties": {"p": {"$ref": "#/$defs/q"}, "o": {"type": "boolean"}}, "$defs": {"q": {"type": "null"}}})")},
      {"none", nullptr}};
}

// 2: the grammar has this text; 1: and it may go on; 0: not.
int matches(const ForcedCall& call, const std::string& text) {
  GrammarStates states(std::make_shared<const Grammar>(Grammar::from_gbnf(call.grammar, "forced")));
  GrammarStates::State state = states.start();
  for (const char c : text) state = states.next(state, static_cast<uint8_t>(c));
  return !states.may_end(state) ? 0 : states.may_continue(state) ? 1 : 2;
}

struct Case {
  const char *chat_template, *begun, *text, *name, *arguments;
};

TEST(ChatForced, IsInTheTemplatesNotation) {
  for (
      const Case& one : std::vector<Case>{
          {"<tool_call>", "<tool_call>\n", R"({"name": "f", "arguments": {"x":1,"s":"a"}})", "f", R"({"x":1,"s":"a"})"},
          {"<tool_call> <function= <parameter=", "<tool_call>\n",
           "<function=f>\n<parameter=x>\n12\n</parameter>\n<parameter=s>\na <b> \"c\"\n</parameter>\n</function>", "f",
           R"({"x": 12, "s": "a <b> \"c\""})"},
          {"<tool_call> <function= <parameter=", "<tool_call>\n",
           "<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=s>\n<b>a</b> </p <</parameter "
           "\xc3\xa9\n</parameter>\n</function>",
           "f", "{\"x\": 1, \"s\": \"<b>a</b> </p <</parameter \xc3\xa9\"}"},
          {"<tool_call> <function= <parameter=", "<tool_call>\n",
           "<function=f>\n<parameter=x>\n-1\n</parameter>\n<parameter=e>\nb\n</parameter>\n</function>", "f",
           R"({"x": -1, "e": "b"})"},
          {"[TOOL_CALLS]", "[TOOL_CALLS][", R"({"name": "foo", "arguments": {"p":null}})", "foo", R"({"p":null})"},
          {"[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]", R"(foo[ARGS]{"o":true})", "foo", R"({"o":true})"},
          {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "f<｜tool▁sep｜>{\"x\":3}", "f",
           R"({"x":3})"},
          {"<｜tool▁calls▁begin｜> ```json", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
           "f\n```json\n{\"x\":3}", "f", R"({"x":3})"},
          {"<|tool_call>", "<|tool_call>call:", "f{x:1, s:\"a\"}", "f", R"({"x": 1, "s": "a"})"},
          {"<|tool_call>", "<|tool_call>call:", "none{}", "none", "{}"},
          {"<|tool_call_start|>", "<|tool_call_start|>[", "foo(o=true)", "foo", R"({"o": true})"},
          {"<|tool_call_start|>", "<|tool_call_start|>[", "foo(p=null, o=false)", "foo", R"({"p": null, "o": false})"},
          {"<|START_ACTION|>", "<|START_ACTION|>[", R"({"tool_call_id": "0", "tool_name": "none", "parameters": {}})",
           "none", "{}"},
          {"<|tool_call|>", "<|tool_call|>[", R"({"name": "none", "arguments": {}})", "none", "{}"},
          {"<TOOLCALL>", "<TOOLCALL>[", R"({"name": "none", "arguments": {}})", "none", "{}"},
          {"<tool_calls>", "<tool_calls>\n", R"({"name": "foo", "arguments": {"o":true}})", "foo", R"({"o":true})"},
          {"<|function_call|>", "<|function_call|>", R"({"name": "f", "arguments": {"x":1}})", "f", R"({"x":1})"},
          {"<|python_tag|>", "", R"({"name": "f", "parameters": {"x":1}})", "f", R"({"x":1})"},
          {"", "", R"({"name": "f", "arguments": {"x":1}})", "f", R"({"x":1})"},
          {"[TOOL_CALLS] [CALL_ID] [ARGS]", "[TOOL_CALLS]", R"(foo[CALL_ID]000000000[ARGS]{"o":true})", "foo",
           R"({"o":true})"},
          {"<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
           R"(f:0<|tool_call_argument_begin|>{"x":1})", "f", R"({"x":1})"},
          {"<minimax:tool_call> <parameter name=\"", "<minimax:tool_call>\n",
           "<invoke name=\"f\">\n<parameter name=\"x\">1</parameter>\n<parameter name=\"s\">a\n</parameter>\n</invoke>",
           "f", R"({"x": 1, "s": "a\n"})"},
          {"<' + dsml + 'function_calls> ｜DSML｜", "<｜DSML｜function_calls>\n",
           "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" "
           "string=\"false\">1</｜DSML｜parameter>\n<｜DSML｜parameter "
           "name=\"e\" string=\"true\">b</｜DSML｜parameter>\n</｜DSML｜invoke>",
           "f", R"({"x": 1, "e": "b"})"},
          {"<' + dsml + 'tool_calls> ｜DSML｜", "<｜DSML｜tool_calls>\n",
           "<｜DSML｜invoke name=\"none\">\n</｜DSML｜invoke>", "none", "{}"},
          {"<|tools_prefix|>", "<|tools_prefix|>[", R"({"f": {"x":1}})", "f", R"({"x":1})"},
          {"<function name= <param name=\"", "",
           "<function name=\"f\"><param name=\"x\">1</param><param name=\"s\">a</param></function>", "f",
           R"({"x": 1, "s": "a"})"},
          {"<|tool_call:begin|>", "<|tool_calls|><|tool_call:begin|>0000000000<|tool_call:name|>",
           R"(f<|tool_call:args|>{"x":1})", "f", R"({"x":1})"},
          {"<seed:tool_call> <parameter=", "<seed:tool_call>\n",
           "<function=f>\n<parameter=x>1</parameter>\n<parameter=s>\na\n</parameter>\n</function>", "f",
           R"({"x": 1, "s": "\na\n"})"},
          {"<tool_call> <arg_key>k</arg_key>\n", "<tool_call>",
           "f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n<arg_key>s</arg_key>\n<arg_value>2</arg_value>\n</"
           "tool_call>",
           "f", R"({"x": 1, "s": "2"})"},
          {"<tool_call> <arg_key>k</arg_key><arg_value>", "<tool_call>", "none</tool_call>", "none", "{}"},
          {"<tool_call> <arg_key>k</arg_key><arg_value>", "<tool_call>",
           "f<arg_key>x</arg_key><arg_value>1</arg_value><arg_key>s</arg_key><arg_value></p></arg_value</arg_value></"
           "tool_call>",
           "f", R"({"x": 1, "s": "</p></arg_value"})"},
          {"<function=", "", R"(<function=f>{"x":1}</function>)", "f", R"({"x":1})"},
          {"<function_call>", "<function_call> ", R"({"name": "f", "arguments": {"x":1}})", "f", R"({"x":1})"},
          {"<|action_start|><|plugin|>", "<|action_start|><|plugin|>\n", R"({"name": "f", "arguments": {"x":1}})", "f",
           R"({"x":1})"},
          {"functools[", "functools[", R"({"name": "f", "arguments": {"x":1}})", "f", R"({"x":1})"},
          {"Action:\\n```json", "Action:\n```json\n[", R"({"tool_name": "f", "parameters": {"x":1}})", "f",
           R"({"x":1})"},
          {"List of tools: [", "<|tool_call_start|>[", "foo(o=true)", "foo", R"({"o": true})"},
          {"<tool_call> <tool_calls>[", "<tool_calls>[", R"({"name": "f", "arguments": {"x":1}})", "f", R"({"x":1})"},
          {"<|channel|><|message|>", "<|channel|>commentary to=functions.", "f <|constrain|>json<|message|>{\"x\":1}",
           "f", R"({"x":1})"}}) {
    const ForcedCall call = forced_call(some_tools(), one.chat_template);
    EXPECT_EQ(call.begun, one.begun) << one.chat_template;
    EXPECT_EQ(matches(call, one.text), 2) << one.chat_template << "\n" << call.grammar;
    Reader reader({some_tools(), one.chat_template, call.begun});
    std::vector<Reader::Event> events = reader.push(one.text);
    for (Reader::Event& event : reader.finish()) events.push_back(event);
    ASSERT_EQ(events.size(), 1u) << one.text;
    EXPECT_EQ(events[0].kind, Reader::Kind::call) << one.text;
    EXPECT_EQ(events[0].name, one.name);
    EXPECT_EQ(events[0].text, one.arguments);
  }
}

TEST(ChatForced, FollowsTheSchema) {
  for (const char* const chat_template : {"<tool_call>", "<tool_call> <parameter=", "[TOOL_CALLS][ARGS]",
                                          "<|tool_call>", "<|tool_call_start|>", ">>>", ""}) {
    const ForcedCall call = forced_call(some_tools(), chat_template);
    for (const char* const text : {"{\"name\": \"f\", \"arguments\": {}}", "<function=f>\n</function>", "f[ARGS]{}",
                                   "f{}", "f(x=\"1\")", "foo(o=1)", "f\n{}", "{\"name\": \"g\", \"arguments\": {}}"})
      EXPECT_EQ(matches(call, text), 0) << chat_template << " " << text;
  }
}

// A single function's name is a part of the prompt, where marks are control tokens.
TEST(ChatForced, KnowsTheNameOfASingleFunction) {
  const ForcedCall call = forced_call({some_tools()[0]}, "[TOOL_CALLS][ARGS]");
  EXPECT_EQ(call.begun, "[TOOL_CALLS]f[ARGS]");
  EXPECT_EQ(matches(call, "{\"x\":1}"), 2);
  EXPECT_EQ(forced_call({some_tools()[0]}, ">>>").begun, "f\n");
}

// Parameters that cannot be listed one by one become an object.
TEST(ChatForced, FallsBackToAnObject) {
  const Tools tools = {
      {"f", json(R"({"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}]})")}};
  for (const char* const chat_template : {"<tool_call> <parameter=", "<tool_call> <|tool_call_start|>"})
    EXPECT_EQ(matches(forced_call(tools, chat_template), "{\"name\": \"f\", \"arguments\": {\"x\":1}}"), 2);
}

TEST(ChatForced, KeepsTheDigitsOfTheSchema) {
  for (const std::string number :
       {"18446744073709551616", "-9223372036854775809", "12345678901234567891234", "1e+23",
        "0.1000000000000000055511151231257827", "-12345678901234567890.5", "9007199254740993.25e-3"})
    for (const std::string& schema :
         {"{\"const\": " + number + "}", "{\"enum\": [" + number + "]}",
          "{\"type\": \"integer\", \"minimum\": " + number + ", \"maximum\": " + number + "}"}) {
      const Tools tools = {
          {"f", json(R"({"type": "object", "properties": {"x": )" + schema + R"(}, "required": ["x"]})")}};
      const bool bounds = schema.find("integer") != std::string::npos, power = number == "1e+23";
      if (bounds && number.find('.') != std::string::npos) continue;  // no integer
      const std::string written = power && bounds ? "1" + std::string(23, '0') : number;
      const std::string object = R"({"name": "f", "arguments": {"x":)" + written,
                        tags = "<function=f>\n<parameter=x>\n" + written + "\n</parameter>\n</function>";
      EXPECT_EQ(matches(forced_call(tools, "<tool_call>"), object + "}}"), 2) << schema;
      EXPECT_EQ(matches(forced_call(tools, "<tool_call>"), object + "0}}"), 0) << schema;
      EXPECT_EQ(matches(forced_call(tools, "<tool_call> <function= <parameter="), tags), 2) << schema;
    }
}

TEST(ChatForced, KeepsTheOrderOfTheSchema) {
  const Tools tools = {
      {"f",
       json(
           R"({"type": "object", "properties": {"z": {"type": "null"}, "a": {"type": "null"}}, "required": ["z", "a"]})")}};
  EXPECT_EQ(matches(forced_call(tools, "<tool_call>"), R"({"name": "f", "arguments": {"z":null,"a":null}})"), 2);
  EXPECT_EQ(matches(forced_call(tools, "<|tool_call_start|>"), "f(z=null, a=null)"), 2);
}

}  // namespace
}  // namespace weft
