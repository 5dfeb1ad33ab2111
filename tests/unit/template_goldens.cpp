// Templates against the output of transformers and jinja2 (tests/tools/text_goldens.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "golden_files.h"
#include "support/json_value.h"
#include "template/chat_template.h"

namespace weft {
namespace {

using test::Json;

const std::map<std::string, std::string> kNames = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

std::string joined(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const auto& piece : pieces) text += piece.text;
  return text;
}

std::vector<Message> messages_of(const Json& list) {
  std::vector<Message> out;
  for (const Json& item : list) out.push_back({item["role"], item["content"]});
  return out;
}

TEST(TemplateGoldens, ChatTemplatesAgreeWithTransformers) {
  const Json golden = test::read_json(test::golden_folder("template") / "chat_templates.json");
  int refused = 0;
  for (const Json& item : golden["cases"]) {
    const std::string name = item["template"], conversation = item["conversation"];
    const ChatTemplate chat(golden["templates"][name], kNames, name);
    const auto messages = messages_of(golden["conversations"][conversation]);
    if (item.contains("error")) {
      EXPECT_THROW(chat.render(messages, item["prompt"]), Error) << name << " " << conversation;
      ++refused;
      continue;
    }
    EXPECT_EQ(joined(chat.render(messages, item["prompt"])), item["text"].get<std::string>())
        << name << " " << conversation;
  }
  EXPECT_GT(refused, 0);
}

TEST(TemplateGoldens, JinjaSnippetsAgreeWithJinja2) {
  const Json golden = test::read_json(test::golden_folder("template") / "jinja_snippets.json");
  const std::vector<Message> messages = {
      {"user", "Hello there"}, {"assistant", "Hi! How can I help?"}, {"user", "Tell me a story."}};
  for (const Json& item : golden) {
    const std::string source = item["source"];
    try {
      EXPECT_EQ(joined(ChatTemplate(source, kNames, "snippet").render(messages, true)), item["text"].get<std::string>())
          << source;
    } catch (const Error& error) {
      ADD_FAILURE() << source << "\n" << error.what();
    }
  }
}

// Text of a random template, or the error.
std::string rendered(const std::string& source, const JsonValue& messages, const JsonValue& tools) {
  try {
    return "text: " + joined(ChatTemplate(source, kNames, "random").render(messages, tools, true));
  } catch (const Error& error) {
    return (error.code() == Code::unsupported ? "refused: " : "error: ") + error.sentence();
  }
}

// listed: the templates that Weft refuses by name are printed.
void expect_agreement(const std::filesystem::path& path, bool listed) {
  std::ifstream file(path);
  const auto golden = nlohmann::ordered_json::parse(file);  // the order of names shows in the texts
  const auto messages = golden["messages"].get<JsonValue>(), tools = golden["tools"].get<JsonValue>();
  size_t failing = 0, refused = 0;
  for (const auto& item : golden["cases"]) {
    const std::string source = item["source"], text = rendered(source, messages, tools);
    if (text.starts_with("refused: ")) {
      ++refused;
      if (listed) std::cout << text << "\n";
    } else if (item.contains("error")) {
      ++failing;
      EXPECT_EQ(text.substr(0, 7), "error: ") << source << "\nin Jinja: " << item["error"];
    } else {
      EXPECT_EQ(text, "text: " + item["text"].get<std::string>()) << source;
    }
  }
  std::cout << golden["cases"].size() << " templates, " << failing << " fail in Jinja, " << refused
            << " are refused by name\n";
  EXPECT_LT(refused * 20, golden["cases"].size());
}

// tests/tools/template_goldens.py. Other cases than the repository's: their file is WEFT_TEMPLATE_CASES.
TEST(TemplateGoldens, RandomTemplatesAgreeWithJinja2) {
  const char* const other = std::getenv("WEFT_TEMPLATE_CASES");
  expect_agreement(other != nullptr ? other : test::golden_folder("template") / "random_templates.json",
                   other != nullptr);
}

// tests/tools/template_argument_goldens.py: all filters, tests and methods, with none, undefined and each argument.
TEST(TemplateGoldens, ArgumentsAgreeWithJinja2) {
  expect_agreement(test::golden_folder("template") / "arguments.json", true);
}

}  // namespace
}  // namespace weft
