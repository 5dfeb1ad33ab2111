// The JSON reader's limits, and its errors.
#include "format/json.h"

#include <cmath>

#include "base/json_object.h"
#include "base/utf8.h"
#include "format_support.h"
#include "support/json_value.h"

namespace weft {
namespace {

void refuse(const std::string& text, std::vector<std::string> fragments) {
  fragments.push_back("config.json: ");
  expect_error(Code::bad_file, fragments, [&] { parse_json(text, "config.json"); });
}

TEST(Json, BuildsWhatTheTextSays) {
  const std::string text =
      R"( {"a": [1, -2, 2.5, true, false, null, "x\u00e9", [], {}], "b": {"c": {"d": [[1], [2, 3]]}},
      "e": 18446744073709551615} )";
  EXPECT_EQ(nlohmann::json(parse_json(text, "x")), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json("7", "x"), 7);
  EXPECT_EQ(parse_json("\xef\xbb\xbf{}", "x"), JsonValue::object());  // a byte order mark
}

// A long value is cut in an error, between characters.
TEST(Json, ErrorsOfValuesAreUtf8) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\xc3\xa9";
  for (const std::string& front : {std::string(), std::string("x")}) {
    const JsonValue document = {{"a", front + text}};
    try {
      JsonObject(document, "m").integer("a", 0, 1);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(valid_utf8_prefix(error.what()), std::string_view(error.what()).size()) << error.what();
    }
  }
}

TEST(Json, ErrorsNameLineAndByte) {
  refuse("{\n  \"a\": 1,\n  \"b\" 2\n}",
         {"line 3, byte 19", "no valid JSON", "unexpected number literal; expected ':'"});
  refuse("", {"line 1, byte 1", "unexpected end of input"});
  refuse("{} {}", {"line 1, byte 4"});
  refuse("[1, 2", {"line 1, byte 6"});
  refuse("[\"\xff\"]", {"line 1, byte 3", "UTF-8"});
  refuse("[1e999]", {"line 1, byte", "1e999"});
  refuse("\"" + std::string(5000, 'x'), {"..."});
}

// Python's json module writes them, and Transformers reads them.
TEST(Json, ReadsPythonsLiterals) {
  const JsonValue json = parse_json(
      R"({"a": NaN, "b": Infinity, "c": [-Infinity, 1, -2], "NaN": "Infinity", "d": "\\\"NaN", "e": {"f":Infinity}})",
      "x");
  EXPECT_TRUE(std::isnan(json["a"].get<double>()));
  EXPECT_EQ(json["b"].get<double>(), HUGE_VAL);
  EXPECT_EQ(json["c"], JsonValue::Array({-HUGE_VAL, 1, -2}));
  EXPECT_EQ(json["NaN"], "Infinity");
  EXPECT_EQ(json["d"], "\\\"NaN");
  EXPECT_EQ(json["e"]["f"].get<double>(), HUGE_VAL);
  EXPECT_EQ(parse_json("-Infinity", "x").get<double>(), -HUGE_VAL);
  EXPECT_EQ(parse_json("[\"\\\\\",NaN]", "x").size(), 2u);
  for (const char* wrong :
       {"nan", "inf", "+Infinity", "{\"a\": Nan}", "InfinityX", "[NaN NaN]", "-NaN", "{NaN: 1}", "\"NaN", "Infinity\""})
    refuse(wrong, {"no valid JSON"});
  // No value of a configuration may be infinite.
  expect_error(Code::bad_file, {"'a'"}, [&] {
    const JsonValue document = parse_json("{\"a\": Infinity}", "x");
    JsonObject(document, "m").number("a", 0, 1e9, 1);
  });
}

TEST(Json, RefusesRepeatedKeys) {
  refuse(R"({"x": 1, "width": 2, "width": 3})", {"key \"width\" is in one object twice"});
  EXPECT_EQ(parse_json(R"([{"x": 1}, {"x": 2}])", "x").size(), 2u);
}

TEST(Json, BoundsTheDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  parse_json(nested(64), "x");
  refuse(nested(65), {"nested more than 64 deep"});
  refuse(std::string(100'000'000, '['), {"nested more than 64 deep"});
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  refuse(objects, {"nested more than 64 deep"});
}

TEST(Json, BoundsSizeAndValues) {
  std::string many = "[0";
  for (int i = 0; i < (1 << 24); ++i) many += ",0";
  refuse(many + "]", {"more than 16777216 values"});
  refuse(std::string((size_t{1} << 28) + 1, ' '), {"268435457 bytes", "at most 268435456"});
}

}  // namespace
}  // namespace weft
