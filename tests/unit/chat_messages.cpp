// Messages as chat templates of several families want them.
#include "chat/messages.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_digits.h"

namespace weft {
namespace {

JsonValue json(std::string_view text) {
  return parse_json_digits(text, {1 << 20, 1 << 20, 100}, Code::invalid_argument, "a test");
}

std::string changed(const std::string& chat_template, const std::string& messages,
                    Arguments form = Arguments::objects) {
  return dump_digits(messages_for(chat_template, json(messages), form));
}

const std::string kCall =
    R"({"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":)";

TEST(ChatMessages, ArgumentsAreObjectsOrTexts) {
  const std::string text = "[" + kCall + R"("{\"x\":12345678901234567890123}"}}]}])";
  const std::string object = "[" + kCall + R"({"x":12345678901234567890123}}}]}])";
  EXPECT_EQ(changed("", text), object);
  EXPECT_EQ(changed("", object), object);
  EXPECT_EQ(changed("", object, Arguments::texts), text);
  EXPECT_EQ(changed("", text, Arguments::texts), text);
  const std::string broken = "[" + kCall + R"("{\"x\":"}}]}])";
  EXPECT_EQ(changed("", broken), broken);
}

TEST(ChatMessages, ReasoningGetsTheNameThatTheTemplateReads) {
  const std::string given = R"([{"role":"assistant","content":"b","reasoning_content":"a"}])";
  EXPECT_EQ(changed("{{ message.thinking }}", given),
            R"([{"role":"assistant","content":"b","reasoning_content":"a","thinking":"a"}])");
  EXPECT_EQ(changed("{{ message.thinking or message.reasoning_content }}", given), given);
  // gpt-oss's template refuses a content beside the thinking of a message with calls.
  const std::string harmony = "<|channel|><|message|>{{ message.thinking }}";
  const std::string calls =
      R"([{"role":"assistant","content":"b","reasoning_content":"a","tool_calls":[{"function":{"name":"f"}}]}])";
  EXPECT_EQ(changed(harmony, calls), calls);
  EXPECT_NE(changed(harmony, given), given);
}

TEST(ChatMessages, AnEmptyContentBesideCallsIsNoneForTemplatesThatAsk) {
  const std::string given = "[" + kCall + "{}}}]}]";
  EXPECT_EQ(changed("{{ message.content }}", given), given);
  EXPECT_EQ(
      changed("{% if message['content'] is not none %}", given),
      R"([{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}])");
  const std::string answer = R"([{"role":"assistant","content":""}])";
  EXPECT_EQ(changed("{% if message['content'] is not none %}", answer), answer);
}

TEST(ChatMessages, EarlyGemma4HasResultsInTheTurnOfTheCalls) {
  const std::string early = "{{ '<|tool_call>call:' }}{{ message['tool_responses'] }}";
  const std::string given = "[" + kCall + R"({}}}]},{"role":"tool","tool_call_id":"a","content":"{\"t\":18}"},)" +
                            R"({"role":"tool","name":"g","content":"none"},{"role":"assistant","content":"18."},)" +
                            R"({"role":"user","content":"Thanks."}])";
  EXPECT_EQ(changed(early, given),
            R"([{"role":"assistant","content":"18.","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}],)"
            R"("tool_responses":[{"name":"f","response":{"t":18}},{"name":"g","response":"none"}]},)"
            R"({"role":"user","content":"Thanks."}])");
  EXPECT_EQ(changed("{#- OpenAI Chat Completions: -#}" + early, given), changed("", given));
}

}  // namespace
}  // namespace weft
