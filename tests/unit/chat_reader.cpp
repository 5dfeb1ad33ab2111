// Answers with calls and reasoning in the notations of models, whole and byte by byte.
#include "chat/reader.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

JsonValue json(std::string_view text) {
  return parse_json(text, {1 << 20, 1 << 20, 100}, Code::invalid_argument, "a test");
}

Tools some_tools() {
  return {{"f", json(R"({"type": "object", "properties": {"x": {}, "s": {"type": "string"}, "n": {"type": "integer"},
                        "o": {"type": ["string", "null"]}}})")},
          {"get_weather", nullptr},
          {"set-timer", json(R"({"type": "object"})")}};
}

// "text|reasoning|f(arguments)", in this order, each thing once it is complete.
std::string told(const std::vector<Reader::Event>& events) {
  std::string text, reasoning, calls;
  for (const Reader::Event& event : events) {
    if (event.kind == Reader::Kind::text) text += event.text;
    if (event.kind == Reader::Kind::reasoning) reasoning += event.text;
    if (event.kind == Reader::Kind::call) calls += (calls.empty() ? "" : ";") + event.name + event.text;
    if (event.kind == Reader::Kind::arguments) calls += event.text;
  }
  return text + "|" + reasoning + "|" + calls;
}

std::vector<Reader::Event> read(const std::string& text, const ReaderOptions& options, size_t step) {
  Reader reader(options);
  std::vector<Reader::Event> events;
  const auto add = [&](std::vector<Reader::Event> more) { events.insert(events.end(), more.begin(), more.end()); };
  for (size_t at = 0; at < text.size(); at += step) add(reader.push(std::string_view(text).substr(at, step)));
  add(reader.finish());
  size_t end = 0;
  for (const Reader::Event& event : events) {
    EXPECT_GE(event.end, end) << text;
    end = event.end;
  }
  EXPECT_LE(end, text.size()) << text;
  EXPECT_FALSE(reader.holds());
  return events;
}

void expect(const std::string& text, const std::string& wanted, const std::string& chat_template = "",
            const std::string& begun = "", bool several = true) {
  ReaderOptions options = {some_tools(), chat_template, begun, several};
  for (const size_t step : {text.size() + 1, size_t{1}, size_t{3}, size_t{7}})
    EXPECT_EQ(told(read(text, options, step)), wanted) << text << " in steps of " << step;
}

TEST(ChatReader, ReadsHermes) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"x": true}}</tool_call>)";
  expect(call, R"(||f{"x": true})");
  expect("I do.\n" + call + "\n" + call, R"(I do.||f{"x": true};f{"x": true})");
  expect("I do.\n" + call + "\n" + call, R"(I do.||f{"x": true})", "", "", false);
  expect(call + " Done. ", R"(Done. ||f{"x": true})");
  expect("<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "||f{}");
  expect(R"(<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call>)", R"(||f{"x": 1})");
  expect(R"(<tool_call>{"name": "f", "arguments": "{\"x\": 1}"}</tool_call>)", R"(||f{"x": 1})");
  expect(R"(<tool_call>{"type": "function", "function": {"name": "f", "arguments": {}}}</tool_call>)", "||f{}");
  expect(R"(<tool_call>[{"name": "f"}, {"name": "get_weather", "arguments": {"x": 1}}]</tool_call>)",
         R"(||f{};get_weather{"x": 1})");
  expect("<tool_call>\n```json\n{\"name\": \"f\"}\n```\n</tool_call>", "||f{}");
  expect(R"(<tool_call>{"name": "f", "arguments": {"x": 1}})", R"(||f{"x": 1})");           // no closing mark
  expect(R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_ca)", R"(||f{"x": 1})");  // cut
}

TEST(ChatReader, ReadsJsonToWhereItEnds) {
  for (const char* const arguments :
       {R"({"x": "a</tool_call>b"})", R"({"x": "<tool_call>{\"name\": \"f\"}</tool_call>"})", R"({"x": "}}\"]\\"})",
        R"({"x": {"y": [{}, [], "[{"]}})", R"({"x": 12345678901234567891234})", R"({"x": 1.0, "y": 1e400, "z": -0})",
        R"({ "x" :1 ,"x2":null})", R"({"x": "\u00e9é\ud83d\ude00"})", R"({"b": 1, "a": 2})", "{\n  \"x\": 1\n}"}) {
    expect(std::string("a <tool_call>{\"name\": \"f\", \"arguments\": ") + arguments + "}</tool_call>",
           std::string("a||f") + arguments);
    expect(std::string("{\"name\": \"f\", \"parameters\": ") + arguments + "}", std::string("||f") + arguments);
    expect(std::string("[TOOL_CALLS]f[ARGS]") + arguments, std::string("||f") + arguments);
  }
}

TEST(ChatReader, AFlawLosesNothing) {
  const std::string good = R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>)";
  for (const char* const bad :
       {R"(<tool_call>{"name": "f", "arguments": {"x": tru}}</tool_call>)", "<tool_call></tool_call>",
        R"(<tool_call>{"name": "door", "arguments": {}}</tool_call>)",
        R"(<tool_call>{"name": "f", "arguments": 7}</tool_call>)",
        R"(<tool_call>{"name": "f", "arguments": {"x": 1,}}</tool_call>)", "<tool_call>{'name': 'f'}</tool_call>",
        R"(<tool_call>{"name": "f", "other": 1}</tool_call>)", "<tool_call>no call</tool_call>",
        R"(<tool_call>{"name": "f", "arguments": {"x": 01}}</tool_call>)"}) {
    expect(bad, std::string(bad) + "||");
    expect(good + bad + good, std::string(bad) + R"(||f{"x": 1};f{"x": 1})");
    expect("Well: " + std::string(bad) + " " + good, "Well: " + std::string(bad) + R"(||f{"x": 1})");
  }
  for (const char* const text :
       {"<tool_cal", "a <b> c ", "<tool_call>", "```", "```python\nf(1)\n```", "{", "[", "[1] says", "{\"a\": 1}", "[f",
        "a\n[f(x", " \n", "<function=g>{}</function>", "call:f{x:1}", "x [TOOL_CALLS"})
    expect(text, std::string(text) + "||");
  expect(R"({"name": "f", "arguments": {"x": 1)", R"({"name": "f", "arguments": {"x": 1||)");  // cut
  expect(R"(Use {"name": "f"} for that.)", R"(Use {"name": "f"} for that.||)");                // within a line
}

TEST(ChatReader, CallsWithinCallsEnd) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "{\"function\":";
  Reader reader({{{"f", nullptr}}, "", ""});
  std::string read;
  for (const auto& events : {reader.push("<tool_call>" + text), reader.finish()})
    for (const Reader::Event& event : events) read += event.text;
  EXPECT_NE(read.find(text), std::string::npos);
}

TEST(ChatReader, ReadsBareAndFencedJson) {
  expect(R"({"name": "f", "arguments": {"x": 1}})", R"(||f{"x": 1})");
  expect("```json\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n```", R"(||f{"x": 1})");
  expect("```\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n```\nDone.", R"(Done.||f{"x": 1})");
  expect("Sure:\n```json\n[{\"name\": \"f\"}, {\"name\": \"get_weather\"}]\n```", "Sure:||f{};get_weather{}");
  expect("Sure:\n{\"name\": \"f\"}\n{\"name\": \"get_weather\"}\nDone.", "Sure:\nDone.||f{};get_weather{}");
  expect("[{\"name\": \"f\", \"arguments\": {\"x\": [1]}}]", R"(||f{"x": [1]})");
  expect("Action: \n```json\n[{\"tool_name\": \"f\", \"parameters\": {\"x\": 1}}]\n```", R"(Action:||f{"x": 1})");
}

TEST(ChatReader, ReadsTags) {
  expect("<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>", R"(||f{"x": 1})");
  expect("<function=f>\n<parameter=s>\n1\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>",
         R"(||f{"s": "1", "n": 2})");
  expect(
      "<tool_call><function=f><parameter=s>a\n\"b\" </parameter> "
      "c\n</parameter><parameter=x>True</parameter></function></tool_call>",
      R"(||f{"s": "a\n\"b\" </parameter> c", "x": true})");
  expect(
      "<tool_call>\n<function=f>\n</function>\n</"
      "tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew York\n"
      "</parameter>\n</function>\n</tool_call>",
      R"(||f{};get_weather{"city": "New York"})");
  expect("<function=f><parameter=o>null</parameter></function>", R"(||f{"o": null})");
  expect("<function=f><parameter=o>no</parameter></function>", R"(||f{"o": "no"})");
  expect("<function=f>{\"x\": 1}</function>", R"(||f{"x": 1})");
  expect("<function=f>{\"x\": 1}</function><function=get_weather>{}</function>", R"(||f{"x": 1};get_weather{})");
  expect(
      "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n<arg_key>s</arg_key>\n<arg_value>2</arg_value>\n</"
      "tool_call>",
      R"(||f{"x": 1, "s": "2"})");
}

// As pydantic writes Optional[str], an Enum and a union.
TEST(ChatReader, KeepsTextsWhereTheSchemaAllowsThem) {
  ReaderOptions options;
  options.tools = {
      {"f", json(R"({"$defs": {"Unit": {"type": "string", "enum": ["1", "2"]}, "Loop": {"$ref": "#/$defs/Loop"}},
      "properties": {"zip": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "unit": {"$ref": "#/$defs/Unit"},
                     "one": {"const": "7"}, "list": {"anyOf": [{"type": "array"}, {"type": "string"}]},
                     "flag": {"type": ["string", "null"]}, "loop": {"$ref": "#/$defs/Loop"}, "n": {"enum": [1, 2]}}})")}};
  const auto expect_call = [&](const std::string& name, const std::string& text, const std::string& value) {
    const std::string answer =
        "<tool_call>\n<function=f>\n<parameter=" + name + ">\n" + text + "\n</parameter>\n</function>\n</tool_call>";
    EXPECT_EQ(told(read(answer, options, 5)), "||f{\"" + name + "\": " + value + "}");
  };
  expect_call("zip", "12345", R"("12345")");
  expect_call("zip", "null", "null");
  expect_call("zip", "True", R"("True")");
  expect_call("unit", "1", R"("1")");
  expect_call("one", "7", R"("7")");
  expect_call("list", "[1, 2]", "[1, 2]");
  expect_call("list", "1, 2", R"("1, 2")");
  expect_call("flag", "True", R"("True")");
  expect_call("flag", "None", "null");
  expect_call("loop", "1", "1");
  expect_call("n", "1", "1");
}

TEST(ChatReader, ReadsOtherMarks) {
  expect(R"(<|python_tag|>{"name": "f", "parameters": {"x": 1}})", R"(||f{"x": 1})");
  expect(R"({"name": "f", "parameters": {"x": 1}}; {"name": "get_weather", "parameters": {}})",
         R"(||f{"x": 1};get_weather{})");
  expect(R"(<|python_tag|>get_weather.call(city="Oslo", days=3))", R"(||get_weather{"city": "Oslo", "days": 3})");
  expect(R"([TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}, {"name": "get_weather", "arguments": {}}])",
         R"(||f{"x": 1};get_weather{})");
  expect(R"([TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abcdefghi"}])", R"(||f{"x": 1})");
  expect(R"([TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{})",
         R"(||f{"x": 1};get_weather{})");
  expect(R"(Wait.[TOOL_CALLS]f{"x": 1})", R"(Wait.||f{"x": 1})");
  expect("<|tool_call>call:f{x:1,s:<|\"|>a \"b\", {c}<|\"|>,o:[true,null,{k:1.50}]}<tool_call|>",
         R"(||f{"x": 1, "s": "a \"b\", {c}", "o": [true, null, {"k": 1.50}]})");
  expect("<start_function_call>call:f{s:<escape>a<escape>}<end_function_call>", R"(||f{"s": "a"})");
  // FunctionGemma's template marks all values as texts; the schema tells.
  expect(
      "<start_function_call>call:f{n:<escape>3<escape>,s:<escape>4<escape>,o:<escape>null<escape>,x:<escape>5<escape>}"
      "<end_function_call>",
      R"(||f{"n": 3, "s": "4", "o": "null", "x": "5"})");
  expect(R"([f(n="-7", s="8")])", R"(||f{"n": -7, "s": "8"})");
  expect(R"([f(n="many")])", R"(||f{"n": "many"})");
  expect("<|action_start|><|plugin|>\n{\"name\": \"f\", \"arguments\": {}}<|action_end|>", "||f{}");
  expect("```tool_code\n[f(x=1)]\n```", R"(||f{"x": 1})");
  expect(R"(Hm.<TOOLCALL>[{"name": "f", "arguments": {"x": 1}}, {"name": "get_weather", "arguments": {}}]</TOOLCALL>)",
         R"(Hm.||f{"x": 1};get_weather{})");
  expect(R"(<tool_calls>[{"name": "f", "arguments": {"x": 1}}]</tool_calls>Done.)", R"(Done.||f{"x": 1})");
  expect(R"(<|function_call|>{"name": "f", "arguments": {"x": 1}}<|message_sep|>)", R"(||f{"x": 1})");
}

// Each as the real template of the family renders it.
TEST(ChatReader, ReadsNotationsOfLargerModels) {
  expect(
      "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\": "
      "\"<|tool_call_end|>\"}<|tool_call_end|><|tool_call_begin|>functions.set-timer:1<|tool_call_argument_begin|>"
      "{}<|tool_call_end|><|tool_calls_section_end|>Done.",
      R"(I look.
Done.||f{"x": "<|tool_call_end|>"};set-timer{})");
  expect(
      "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">\n12 </parameter>\n<parameter "
      "name=\"x\">[1, {}]</parameter>\n</invoke>\n<invoke name=\"get_weather\">\n</invoke>\n</minimax:tool_call>",
      R"(||f{"s": "\n12 ", "x": [1, {}]};get_weather{})");
  for (const std::string section : {"function_calls", "tool_calls"})
    expect("Oh.\n\n<｜DSML｜" + section +
               ">\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" "
               "string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"s\" "
               "string=\"false\">12</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
               "name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜" +
               section + ">",
           R"(Oh.||f{"x": "12", "s": 12};f{})");
  expect(R"(<|tools_prefix|>[{"f": {"x": {"name": "f"}}}, {"set-timer": {}}]<|tools_suffix|>)",
         R"(||f{"x": {"name": "f"}};set-timer{})");
  expect(R"([{"f": {"x": 1}}])", R"([{"f": {"x": 1}}]||)");  // this form is Apertus's alone
  expect(
      "<function name=\"f\"><param name=\"s\"><![CDATA[a\n</param> <b>]]></param><param name=\"x\">{'a': "
      "None}</param></function><function name=\"get_weather\"></function>",
      R"(||f{"s": "a\n</param> <b>", "x": {"a": null}};get_weather{})");
  expect(
      "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>f<|tool_call:args|>{\"x\": 1}<|tool_call:end|>"
      "<|tool_call:begin|>a1b2c3d4e6<|tool_call:name|>get_weather<|tool_call:args|>{}<|tool_call:end|><|calls|>",
      R"(||f{"x": 1};get_weather{})");
  expect("<seed:tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</function>\n</seed:tool_call>",
         R"(||f{"s": "\na\n"})");
  expect("<tool_call>get_weather\n</tool_call>\n<tool_call>f</tool_call>", "||get_weather{};f{}");
  expect("all\nI look.>>>f\n{\"x\": 1}>>>get_weather\n{}", R"(I look.||f{"x": 1};get_weather{})", ">>>all", ">>>");
  expect("Oh.<|inner_suffix|>Yes.", "Yes.|Oh.|", "<|inner_prefix|><|inner_suffix|>", "<|inner_prefix|>");
}

TEST(ChatReader, AFlawOfTagsLosesNothing) {
  for (const char* const bad :
       {"<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
        "<minimax:tool_call>\n<invoke name='f'>\n</invoke>\n</minimax:tool_call>",
        "<minimax:tool_call><invoke name=\"f\"><parameter name=x>1</parameter></invoke></minimax:tool_call>",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"x\">1",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>[]<|tool_call_end|>",
        "<|tool_calls_section_begin|>", R"(<|tools_prefix|>[{"f": 1}]<|tools_suffix|>)",
        R"(<|tools_prefix|>[{"f": {}, "g": {}}]<|tools_suffix|>)", "<function name=\"f\">1</function>",
        "<|tool_calls|><|tool_call:begin|>1<|tool_call:name|>g<|tool_call:args|>{}<|tool_call:end|>", "a >>>f b",
        "<tool_call>f</tool"})
    expect(bad, std::string(bad) + "||");
}

TEST(ChatReader, ReadsPythonsCalls) {
  expect(R"(<|tool_call_start|>[f(x=1, s='it\'s "a"', o=None)]<|tool_call_end|>Done.)",
         R"(Done.||f{"x": 1, "s": "it's \"a\"", "o": null})");
  expect(R"([f(x=[1, 2.50, (3,)], y={'a': True, "b": {}}), get_weather()])",
         R"(||f{"x": [1, 2.50, [3]], "y": {"a": true, "b": {}}};get_weather{})");
  expect(R"(<|tool_call_start|>[set-timer(minutes=12345678901234567890)]<|tool_call_end|>)",
         R"(||set-timer{"minutes": 12345678901234567890})");
  expect(R"([f(1)])", R"([f(1)]||)");
  expect("<function_calls>f(x=1, s=\"a\")\nget_weather()</function_calls>", R"(||f{"x": 1, "s": "a"};get_weather{})");
  // LFM2's template does not escape quotes.
  expect(R"(<|tool_call_start|>[f(s='a "b" 'c' d', x=["it's", 'o'clock'])]<|tool_call_end|>)",
         R"(||f{"s": "a \"b\" 'c' d", "x": ["it's", "o'clock"]})");
  expect(R"([f(x="\n\t\x41\u00e9")])", R"(||f{"x": "\n\tAé"})");
}

TEST(ChatReader, ReadsDeepSeekGraniteAndCommand) {
  expect(
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": "
      "1}\n```<｜tool▁call▁end｜>\n"
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      R"(||f{"x": 1};get_weather{})");
  expect(
      "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      R"(Hm.||f{"x": 1})");
  expect(R"(<|tool_call|>[{"name": "f", "arguments": {"x": 1}}])", R"(||f{"x": 1})");
  expect(R"(<|tool_call|>[{"name": "f", "arguments": {"x": 1}}]<|/tool_call|>)", R"(||f{"x": 1})");
  expect(R"(functools[{"name": "f", "arguments": {"x": 1}}])", R"(||f{"x": 1})");
  const std::string command = "<|START_THINKING|><|END_THINKING|><|START_ACTION|><|START_RESPONSE|><|END_RESPONSE|>";
  expect(
      "<|START_THINKING|>I ask.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
      "\"parameters\": {\"x\": 1}}\n]<|END_ACTION|>",
      R"(|I ask.|f{"x": 1})", command);
  expect("<|START_THINKING|>I know.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Yes.|I know.|", command);
}

TEST(ChatReader, ReadsFunctionaryAndHarmony) {
  expect("f\n{\"x\": 1}\n>>>get_weather\n{}", R"(||f{"x": 1};get_weather{})", ">>>all", ">>>");
  expect("all\nHello\nyou", "Hello\nyou||", ">>>all", ">>>");
  expect("all\nHello\n>>>f\n{}", "Hello||f{}", ">>>all", ">>>");
  const std::string harmony = "<|start|><|channel|><|message|><|end|>", begun = "<|start|>assistant";
  expect("<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "Yes.|Think.|",
         harmony, begun);
  expect(
      "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{\"x\": 1}<|call|>",
      R"(|Think.|f{"x": 1})", harmony, begun);
  expect(" to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}", R"(||f{"x": 1})", harmony, begun);
  expect(
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.f<|channel|>commentary "
      "json<|message|>{}<|call|>",
      "I look.||f{}", harmony, begun);
}

TEST(ChatReader, SeparatesReasoning) {
  const std::string thinks = "{{ '<think>' }}</think>";
  expect("<think>\nOh.\n</think>\n\nYes. ", "Yes. |Oh.|", thinks);
  expect("Oh.\n</think>\n\nYes.", "Yes.|Oh.|", thinks, "<think>\n");
  expect("Oh. <tool_call>{\"name\": \"f\"}</tool_call></think>\n\n<tool_call>{\"name\": \"f\"}</tool_call>",
         "|Oh. <tool_call>{\"name\": \"f\"}</tool_call>|f{}", thinks, "<think>\n");
  expect("Oh.", "|Oh.|", thinks, "<think>");
  expect("<think></think>Yes.", "Yes.||", thinks);
  expect("Say <think> and </think>.", "Say <think> and </think>.||", thinks);
  expect("<think>Oh.</think>Yes.", "<think>Oh.</think>Yes.||");  // the model was not taught to
  expect("[THINK]Oh.[/THINK]Yes.", "Yes.|Oh.|", "[THINK][/THINK]");
  expect("Oh.</think>Yes.", "Yes.|Oh.|", "{{ '<think>' }}", "<think>");  // OLMo 3 has no closing mark in its template
  expect("<thought>\nOh.\n</thought>\nYes.", "Yes.|Oh.|", "</thought>");
  expect("<think>\nOh.\n</think>\n<answer>\nYes.\n</answer>", "Yes.|Oh.|", "<｜hy_Assistant｜></think>");
  expect("<answer>Yes.</answer>", "<answer>Yes.</answer>||", "</think>");
  expect("<think>Oh.</think><response>Yes.</response>", "Yes.|Oh.|", "<think></think><response></response>");
  expect("<|channel>thought\nOh.<channel|>Yes.", "Yes.|Oh.|", "<|channel>thought <channel|>");
}

TEST(ChatReader, ReadsWithoutTools) {
  for (const char* const text : {"<tool_call>{\"name\": \"f\"}</tool_call>", "{\"name\": \"f\"}", " a \n", ""}) {
    ReaderOptions options;
    for (const size_t step : {size_t{1}, size_t{100}})
      EXPECT_EQ(told(read(text, options, step)), std::string(text) + "||");
  }
}

// Long arguments come in parts before they are complete; together they are the same.
TEST(ChatReader, TellsLongArgumentsEarly) {
  std::string arguments = "{\"x\": \"";
  for (int i = 0; i < 200; ++i) arguments += "word " + std::to_string(i) + "\\n";
  arguments += "\"}";
  ReaderOptions options = {some_tools(), "", "", true, 100};
  for (const std::string& text : {"<tool_call>{\"name\": \"f\", \"arguments\": " + arguments + "}</tool_call>",
                                  "[TOOL_CALLS]f[ARGS]" + arguments}) {
    const std::vector<Reader::Event> events = read(text, options, 5);
    EXPECT_EQ(told(events), "||f" + arguments);
    EXPECT_GT(events.size(), 20u);
    EXPECT_EQ(events.front().name, "f");
  }
  // A flaw after that.
  const std::string flawed =
      "<tool_call>{\"name\": \"f\", \"arguments\": " + arguments.substr(0, 500) + "\", tru}} end";
  const std::string both = told(read(flawed, options, 5));
  EXPECT_TRUE(both.ends_with("||f" + arguments.substr(0, 500) + "\"") || both.find("||f{\"x\": \"word") != both.npos)
      << both;
  EXPECT_NE(both.find("end|"), both.npos) << both;
}

TEST(ChatReader, TellsAForcedCallAtOnce) {
  ReaderOptions options = {some_tools(), "", "<tool_call>\n", true, 0};
  const std::string text = "{\"name\": \"f\", \"arguments\": {\"x\": 1}}";
  const std::vector<Reader::Event> events = read(text, options, 1);
  EXPECT_EQ(told(events), R"(||f{"x": 1})");
  EXPECT_GT(events.size(), 4u);
  EXPECT_EQ(told(read("{\"name\": \"f", options, 1)), "{\"name\": \"f||");  // cut: the prompt's part is not told
}

}  // namespace
}  // namespace weft
