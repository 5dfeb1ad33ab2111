// Answers with calls as the chat templates of 76 real models render them: tests/tools/call_goldens.py.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/reader.h"
#include "golden_files.h"

namespace weft {
namespace {

JsonValue json(std::string_view text) {
  return parse_json(text, {1 << 20, 1 << 20, 100}, Code::invalid_argument, "a test");
}

struct Said {
  std::string text;  // and reasoning
  test::Json calls = test::Json::array();
};

Said read(const ReaderOptions& options, const std::string& answer, size_t step) {
  Reader reader(options);
  Said said;
  const auto add = [&](const std::vector<Reader::Event>& events) {
    for (const Reader::Event& event : events) {
      if (event.kind == Reader::Kind::call)
        said.calls.push_back({event.name, test::Json::parse(event.text)});
      else
        said.text += event.text;
    }
  };
  for (size_t at = 0; at < answer.size(); at += step) add(reader.push(std::string_view(answer).substr(at, step)));
  add(reader.finish());
  return said;
}

TEST(ChatRendered, ReadsWhatTemplatesRender) {
  const test::Json golden = test::read_json(test::golden_folder("chat") / "rendered_calls.json");
  const JsonValue parameters = json(R"({"type": "object", "properties": )" + golden["properties"].dump() + "}");
  ASSERT_GT(golden["cases"].size(), 500u);
  for (const test::Json& one : golden["cases"]) {
    const std::string signs = one["signs"], answer = one["said"], content = one["content"];
    const ReaderOptions options = {{{"get_weather", parameters}, {"set-timer", parameters}},
                                   signs,
                                   begun_part(one["prompt_end"].get<std::string>(), signs)};
    for (const size_t step : {answer.size(), size_t{1}, size_t{4}}) {
      const Said said = read(options, answer, step);
      EXPECT_EQ(said.calls, one["calls"]) << one["templates"] << "\n" << answer;
      EXPECT_EQ(said.text.find("get_weather"), std::string::npos) << one["templates"] << "\n" << said.text;
      EXPECT_NE(said.text.find(content), std::string::npos) << one["templates"] << "\n" << said.text;
    }
  }
}

}  // namespace
}  // namespace weft
