// Keywords of JSON Schema in combination: accepted texts and refused ones. grammar_schema.cpp has each alone.
#include "grammar_support.h"

namespace weft {
namespace {

using test::byte_matcher;
using test::matches;

struct Case {
  const char* schema;
  std::vector<const char*> yes, no;
};

void expect(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    Matcher matcher = byte_matcher(Grammar::from_json_schema(c.schema, "s.json"));
    for (const char* text : c.yes) EXPECT_TRUE(matches(matcher, text)) << text;
    for (const char* text : c.no) EXPECT_FALSE(matches(matcher, text)) << text;
  }
}

TEST(GrammarKeywords, Formats) {
  const auto format = [](const char* name, std::vector<const char*> yes, std::vector<const char*> no) {
    Matcher matcher = byte_matcher(Grammar::from_json_schema("{\"format\":\"" + std::string(name) + "\"}", "s.json"));
    for (const char* text : yes) EXPECT_TRUE(matches(matcher, "\"" + std::string(text) + "\"")) << name << " " << text;
    for (const char* text : no) EXPECT_FALSE(matches(matcher, "\"" + std::string(text) + "\"")) << name << " " << text;
  };
  format("email", {"a@b.de", "joe.bloggs+x@example.com"},
         {"a", "a@", "@b.de", ".a@b.de", "a..b@c.de", "a b@c.de", "a@-b.de"});
  format("hostname", {"localhost", "www.example.com", "a-b.c9"},
         {"", "-a", "a-", "a..b", "a_b", "ab--cd.de", "a.b.c.d.e"});
  format("uri", {"http://a/b?c=d#e", "urn:uuid:1", "mailto:a@b.de", "http://[::1]:80/", "file:///x"},
         {"a", "/b", "//a/b", "http://a b", "1a:b", "http:// x"});
  format("uri-reference", {"", "a/b", "/b", "//a/b", "#x", "?y", "http://a"}, {"a b", "%zz", "\\\\"});
  format("ipv6", {"::", "::1", "1:2:3:4:5:6:7:8", "fe80::a:b", "::ffff:1.2.3.4", "1::2:3:4:5:6:7"},
         {":", "1:2", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3"});
  format("duration", {"P3D", "PT5M", "P1Y2M3DT4H5M6S", "P2W", "PT0S"}, {"P", "PT", "P1", "P1Y2W", "PT1D", "P1H", "1D"});
  format("uuid4", {"123e4567-e89b-42d3-a456-426614174000"}, {"123e4567-e89b-12d3-a456-426614174000"});
  format("date-time", {"2024-02-29T23:59:59.123456789Z"}, {"2023-02-29T23:59:59Z", "2024-02-29 23:59:59Z"});
  format("json-pointer", {"", "/a/b~0c~1", "/"}, {"a", "/~2", "/~"});
  format("base64", {"", "YQ==", "YWI=", "YWJj"}, {"YQ", "YQ=", "Y==="});
  format("password", {"", "x y"}, {});
}

TEST(GrammarKeywords, StringsThatHaveToBeSeveralThings) {
  expect({
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})",
       {R"("ab")", R"("abcd")"},
       {R"("a")", R"("abcde")", R"("aB")"}},
      {R"({"type":"string","pattern":"a","maxLength":2})", {R"("xa")", R"("a")"}, {R"("xxa")", R"("x")"}},
      {R"({"type":"string","format":"date","pattern":"^2024"})", {R"("2024-02-29")"}, {R"("2023-01-01")"}},
      {R"({"type":"string","pattern":"^(?=.*[A-Z])(?=.*\\d).{3,}$"})",
       {R"("aB1")", R"("1xxB")"},
       {R"("ab1")", R"("B1")"}},
      {R"({"type":"string","pattern":"^(?!admin$)[a-z]+$"})", {R"("adm")", R"("admins")"}, {R"("admin")", R"("")"}},
      {R"x({"type":"string","pattern":"(^a$)|(^bb$)"})x", {R"("a")", R"("bb")"}, {R"("ab")", R"("b")"}},
      {R"({"type":"string","pattern":"\\bfoo\\b"})", {R"("foo")", R"("a foo!")"}, {R"("food")", R"("afoo")"}},
      {R"({"type":"string","pattern":"^a+?b*?$"})", {R"("a")", R"("aabb")"}, {R"("b")"}},
      {R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"}]})", {R"("ab")", R"("axb")"}, {R"("a")", R"("b")", "1"}},
      {R"({"type":"string","not":{"pattern":"a"}})", {R"("b")", R"("")"}, {R"("a")", R"("bab")"}},
      {R"({"type":"string","not":{"enum":["a","b"]},"maxLength":1})", {R"("c")", R"("")"}, {R"("a")", R"("cc")"}},
      {R"({"enum":["a","bb",3],"minLength":2})", {R"("bb")", "3"}, {R"("a")"}},
  });
}

TEST(GrammarKeywords, ChoicesAndNegations) {
  expect({
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"},"a":{"minimum":3}}}]})",
       {R"({"a":3})", R"({"a":4,"b":null})"},
       {R"({"a":2})", R"({"b":null})", R"({"a":3,"c":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"},
       {"{}"}},
      {R"({"type":"integer","oneOf":[{"minimum":3},{"maximum":5}]})", {"2", "6"}, {"3", "4", "5"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]})", {"1", "2.5"}, {"2", "3", "1.5"}},
      {R"({"type":["string","integer"],"not":{"type":"string"}})", {"1"}, {R"("a")", "null"}},
      {R"({"type":"integer","not":{"minimum":3,"maximum":5}})", {"2", "6"}, {"3", "5"}},
      {R"({"type":"number","not":{"multipleOf":1},"minimum":0,"maximum":2})", {"0.5", "1.25"}, {"1", "1.0", "2"}},
      {R"({"not":{"type":["object","array","string","number"]}})", {"null", "true"}, {"1", "{}"}},
      {R"({"type":"integer","not":{"const":5}})", {"4", "55"}, {"5"}},
      {R"({"type":"array","items":{"type":"integer"},"not":{"items":{"minimum":0}}})",
       {"[-1]", "[1,-2,3]"},
       {"[]", "[1]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"not":{"required":["a"]}})",
       {"{}", R"({"b":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","properties":{"k":{"enum":["a","b"]},"n":{"type":"null"}},"required":["k"],)"
       R"("if":{"properties":{"k":{"const":"a"}}},"then":{"required":["n"]},"else":{"not":{"required":["n"]}}})",
       {R"({"k":"a","n":null})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"b","n":null})"}},
      {R"({"type":"object","discriminator":{"propertyName":"k"},"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{)"
       R"("a":{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"null"}},"required":["k","x"]},)"
       R"("b":{"type":"object","properties":{"k":{"const":"b"},"y":{"type":"null"}},"required":["k","y"]}}})",
       {R"({"k":"a","x":null})", R"({"k":"b","y":null})"},
       {R"({"k":"a","y":null})"}},
      {R"({"$ref":"#/$defs/s","maxLength":2,"$defs":{"s":{"type":"string","minLength":1}}})",
       {R"("a")", R"("ab")"},
       {R"("")", R"("abc")"}},
      {R"({"$id":"http://x/root.json","properties":{"a":{"$ref":"b.json"},"c":{"$ref":"#d"}},"$defs":{"b":{"$id":"b.json","type":"null"},"d":{"$anchor":"d","type":"boolean"}}})",
       {R"({"a":null,"c":true})"},
       {R"({"a":1})", R"({"c":null})"}},
  });
}

TEST(GrammarKeywords, Objects) {
  expect({
      {R"({"type":"object","patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":3}}})",
       {"{}", R"({"x":1})", R"({"xy":3})", R"({"x1":1,"y":3})"},
       {R"({"xy":2})", R"({"x":null})", R"({"z":1})"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
       {R"({"x":1,"z":null})"},
       {R"({"z":1})", R"({"x":null})"}},
      {R"({"type":"object","properties":{"xa":{"maximum":5}},"patternProperties":{"^x":{"type":"integer"}}})",
       {R"({"xa":5,"xb":9})"},
       {R"({"xa":6})", R"({"xa":1.5})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"},"additionalProperties":{"type":"null"}})",
       {"{}", R"({"ab":null,"cd":null})"},
       {R"({"a":null})", R"({"AB":null})"}},
      {R"({"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"null"},"minProperties":1})",
       {R"({"a":null})", R"({"b":null,"a":null})"},
       {"{}", R"({"c":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":2})",
       {R"({"a":null,"c":null})", R"({"a":null,"b":null,"c":null})"},
       {"{}", R"({"b":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"additionalProperties":{"type":"null"},"maxProperties":2})",
       {"{}", R"({"b":null,"x":null})", R"({"x":null,"y":null})"},
       {R"({"a":null,"b":null,"x":null})"}},
      {R"({"type":"object","properties":{"card":{"type":"null"},"address":{"type":"null"}},"dependentRequired":{"card":["address"]}})",
       {"{}", R"({"address":null})", R"({"card":null,"address":null})"},
       {R"({"card":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"dependentSchemas":{"b":{"properties":{"a":{"minimum":3}}}}})",
       {R"({"a":1})", R"({"a":3,"b":null})"},
       {R"({"a":1,"b":null})"}},
      {R"({"type":"object","properties":{"a":{"$ref":"#/$defs/none"},"b":{"type":"null"}},"$defs":{"none":{"type":"integer","minimum":3,"maximum":2}}})",
       {"{}", R"({"b":null})"},
       {R"({"a":1})"}},
  });
}

TEST(GrammarKeywords, Arrays) {
  expect({
      {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5}})",
       {"[5]", "[1,2,7]", "[6,1]"},
       {"[]", "[1,2]"}},
      {R"({"type":"array","items":{"enum":[1,2]},"contains":{"const":1},"minContains":2,"maxContains":2})",
       {"[1,1]", "[2,1,2,1]"},
       {"[1]", "[1,1,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"},"contains":{"const":3},"maxItems":3})",
       {"[null,3]", "[null,1,3]"},
       {"[null]", "[null,1,1,3]", "[3]"}},
      {R"({"type":"array","items":{"enum":["a","b",1]},"uniqueItems":true})",
       {"[]", R"(["a"])", R"(["b","a"])", R"([1,"a","b"])"},
       {R"(["a","a"])", R"([1,1])"}},
      {R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":1})",
       {"[true]", "[false,true]"},
       {"[]", "[true,true]"}},
      {R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[{}]"}, {"[1,2]"}},
      {R"({"items":[{"type":"null"},{"type":"boolean"}],"additionalItems":false})",
       {"[]", "[null,true]"},
       {"[null,true,1]", "[true]"}},
      {R"({"const":[1,2.0],"uniqueItems":true})", {"[1,2.0]"}, {"[1,2]"}},
  });
}

// A schema of 73 kB: its grammar is linear in it.
TEST(GrammarKeywords, TwoThousandOptionalProperties) {
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 2000; ++i) {
    schema += (i > 0 ? ",\"property_" : "\"property_") + std::to_string(i) + R"(":{"type":"integer"})";
  }
  Matcher matcher = byte_matcher(Grammar::from_json_schema(schema + "}}", "s.json"));
  EXPECT_TRUE(matches(matcher, R"({"property_0":1,"property_7":2,"property_1999":3})"));
  EXPECT_TRUE(matches(matcher, R"({"property_1000":1})"));
  EXPECT_FALSE(matches(matcher, R"({"property_7":1,"property_6":2})"));
}

// Schemas whose alternatives multiply, and patterns of exponential automata, are refused before they take memory.
TEST(GrammarKeywords, GrowthIsBounded) {
  const auto refuses = [](const std::string& schema, const std::string& why) {
    const std::string error = test::error_of([&] { Grammar::from_json_schema(schema, "s.json"); });
    EXPECT_NE(error.find(why), std::string::npos) << error;
  };
  std::string all = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    all += i > 0 ? "," : "";
    all += R"({"anyOf":[{"properties":{"a)" + n + R"(":{}}},{"properties":{"b)" + n + R"(":{}}}]})";
  }
  refuses(all + "]}", "alternatives multiply");
  // Few alternatives at once, but each would have a copy of all that are open.
  std::string deep = R"({"allOf":[)", wide = R"({"anyOf":[)";
  for (int i = 0; i < 5000; ++i) {
    deep += std::string(i > 0 ? "," : "") + R"({"anyOf":[{},{}]})";
    wide += std::string(i > 0 ? "," : "") + "{}";
  }
  refuses(deep + "]}", "alternatives multiply");
  refuses(deep + "," + wide + "]}]}", "alternatives multiply");
  refuses(R"({"pattern":"a.{40}$","maxLength":100})", "states");
  refuses(R"({"type":"integer","multipleOf":999999937})", "states");
  refuses(R"({"type":"string","pattern":"x","minLength":90000})", "states");
}

}  // namespace
}  // namespace weft
