// JSON Schemas as grammars: tables, refusals, and random texts, all of which must parse and be valid.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "grammar_generations.h"
#include "grammar_support.h"
#include "reference/json_schema.h"

namespace weft {
namespace {

using test::byte_matcher;
using test::error_of;
using Json = nlohmann::json;
using test::matches;
using test::share;

struct Case {
  const char* schema;
  std::vector<std::string> yes, no;
};

TEST(GrammarSchema, AcceptsAndRejects) {
  const std::vector<Case> cases = {
      {R"({"type":"null"})", {"null"}, {"", "nul", "null ", "0"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "null"}},
      {R"({"type":["boolean","null"]})", {"true", "null"}, {"0"}},
      {R"({"type":"string"})",
       {R"("")", R"("a")", "\"\xC3\xA9\"", R"("\n\"\\\/\u00e9\uD83D\uDE00")"},
       {"\"", "\"\n\"", R"("\x")", R"("\uD83D")", R"("\uDE00")", R"("\uD83Da")", "\"\xC3\"", "a"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\n\\x")", R"("\uD83D\uDE00a")"},
       {R"("a")", R"("abcd")", R"("\uD83D\uDE00")"}},
      {R"({"type":"string","pattern":"^[a-z\"]{2}$"})",
       {R"("ab")", R"("\"a")"},
       {R"("abc")", R"("a")", R"("A1")", R"("""")"}},
      {R"({"type":"string","pattern":"b|^a"})",
       {R"("ax")", R"("xxbxx")", R"("b")", R"("\n\u0001b")"},
       {R"("xa")", R"("")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")", R"("2024-13-01")", R"("2024-1-01")",
        R"("0000-01-01")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-02-29T23:59:59Z")", R"("2024-02-28T00:00:00.123+05:30")"},
       {R"("2024-02-29")", R"("2024-02-29T24:00:00Z")", R"("2024-02-29T23:59:59")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("127.0.0.1")", R"("255.249.199.9")"},
       {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {R"({"type":"integer"})", {"0", "-1", "123456789012345"}, {"-0", "01", "1.0", "1e3", "+1", "", "-"}},
      {R"({"type":"integer","minimum":-12,"maximum":105})",
       {"-12", "-9", "0", "9", "10", "99", "105"},
       {"-13", "106", "110", "-0", "1050"}},
      {R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10})", {"1", "9"}, {"0", "10", "-1"}},
      {R"({"type":"integer","minimum":-0.5,"maximum":2.5})", {"0", "1", "2"}, {"-1", "3"}},
      {R"({"type":"number"})", {"0", "-0", "1.5", "-2e10", "3.25E-07", "1e100"}, {".5", "1.", "01", "1e", "1e+"}},
      {R"({"type":"number","minimum":0})", {"0", "0.0", "1.5", "123456"}, {"-1", "-0.1", "-0", "1e5"}},
      {R"({"type":"number","minimum":-1.25,"exclusiveMaximum":3.5})",
       {"-1.25", "-1.250", "-1.2", "-0.5", "0", "3", "3.49", "3.4999"},
       {"-1.26", "-1.3", "-2", "3.5", "3.50", "3.6", "4", "-0.0"}},
      {R"({"type":"number","exclusiveMinimum":0.1,"maximum":0.2})",
       {"0.11", "0.101", "0.2", "0.20"},
       {"0.1", "0.10", "0.21", "0", "0.3", "1"}},
      {R"({"enum":["a",1,null,{"x":[1,2]},1.50]})",
       {R"("a")", "1", "null", R"({"x":[1,2]})", R"({"x": [1, 2]})", "1.50"},
       {R"("b")", "1.5", R"({"x":[1]})", "2"}},
      {R"({"type":["string","integer"],"enum":["a",1,null,2.5]})", {R"("a")", "1"}, {"null", "2.5"}},
      {R"({"const":"a\"b"})", {R"("a\"b")"}, {R"("a")"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]})",
       {R"({"b":null})", R"({"a":null,"b":null})", R"({"b": null, "c": null})", R"({"a":null,"b":null,"c":null})"},
       {"{}", R"({"a":null})", R"({"c":null})", R"({"b":null,"a":null})", R"({"b":null,})", R"({ "b":null})",
        R"({"b":null,"x":1})", R"({"b":  null})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}}})",
       {"{}", R"({"a":null})"},
       {R"({"a":null,"a":null})", R"({,"a":null})"}},
      {R"({"type":"object","properties":{"a":true,"b":false}})", {"{}", R"({"a":[1,{"z":"q"}]})"}, {R"({"b":null})"}},
      {R"({"type":"object"})", {"{}", R"({"a":1,"b":{"c":[]}})"}, {"[]", "{a:1}"}},
      {R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"ab":null,"a":true})", R"({"a":true,"abc":false})", R"({"":true})", R"({"x":true})"},
       {R"({"ab":true})", R"({"a":null})", R"({"x":true,"ab":null})", R"({"\u0061":true})",
        R"({"ab":null,"ab":true})"}},
      {R"({"type":"object","required":["x"]})",
       {R"({"x":1})", R"({"x":1,"y":2})"},
       {"{}", R"({"y":2})", R"({"x":1,"x":2})"}},
      {R"({"type":"object","properties":{},"additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"array"})", {"[]", R"([1,"a",[]])"}, {"[1,]", "{}"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1, 2, 3]"},
       {"[]", "[1]", "[1,2,3,4]", "[1, true]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":1})", {"[null]", "[null,null]"}, {"[]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"type":"integer"},"minItems":1})",
       {"[null]", "[null,true]", "[null,false,1,2]"},
       {"[]", "[true]", "[null,1]", "[null,true,null]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"},{"type":"null"}],"items":false,"maxItems":2})",
       {"[]", "[null]", "[null,true]"},
       {"[null,true,null]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"},false],"items":{"type":"null"}})",
       {"[]", "[null]"},
       {"[null,null]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"},"minItems":3,"maxItems":4})",
       {"[null,1,2]", "[null,1,2,3]"},
       {"[null,1]", "[null,1,2,3,4]"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"},false]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"const":"a"},{"enum":["b","c"]}]})", {R"("a")", R"("c")"}, {R"("d")"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},)"
       R"({"properties":{"k":{"const":"b"},"n":{"type":"null"}},"required":["k"]}]})",
       {R"({"k":"a"})", R"({"k":"b","n":null})"},
       {R"({"k":"a","n":null})", "{}"}},
      {R"({"allOf":[{"type":"null"}],"title":"x"})", {"null"}, {"1"}},
      {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/n"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}}})",
       {"{}", R"({"c":[{},{"c":[]}]})"},
       {R"({"c":{}})"}},
      {R"({"properties":{"a/b~":{"type":"null"},"q\"":{"$ref":"#/properties/a~1b~0"},"p":{"$ref":"#/properties/q%22"}}})",
       {R"({"q\"":null,"p":null})"},
       {R"({"p":1})"}},
      {R"({"anyOf":[{"type":"null"},{"type":"boolean"}],"$defs":{"x":{"$ref":"#/anyOf/1"}}})", {"true"}, {"1"}},
      {"true", {"null", R"({"a":[1.5e3]})"}, {"nul", ""}},
      {"{}", {"1"}, {"a"}},
      {R"({"minimum":3})", {"3", "3.5"}, {"2", "null"}},  // of what a type is not said of, the types it speaks of
      {R"({"type":"array","items":{},"uniqueItems":false})", {"[1,1]"}, {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    const Json schema = Json::parse(c.schema);
    Matcher matcher = byte_matcher(Grammar::from_json_schema(c.schema, "s.json"));
    for (const std::string& text : c.yes) {
      EXPECT_TRUE(matches(matcher, text)) << testing::PrintToString(text);
      EXPECT_EQ(reference::why_invalid(Json::parse(text), schema, schema), "");
    }
    for (const std::string& text : c.no) EXPECT_FALSE(matches(matcher, text)) << testing::PrintToString(text);
  }
}

TEST(GrammarSchema, RefusesByNameWithLineAndReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"",
       "s.json:1: this is no valid JSON: syntax error while parsing value - unexpected end of input; expected '[', "
       "'{', or a literal"},
      {"{\n\"a\":1,\n\"a\":2}", "s.json:3: key 'a' is in one object twice"},
      {"[]", "s.json:1: #: a schema should be an object, true or false, but is an array"},
      {"false", "s.json:1: nothing matches the schema at '#'"},
      {"{\n\"multipleOf\":0}", "s.json:2: #: 'multipleOf' should be above 0 but is '0'"},
      {"{\"multipleOf\":-1e3}", "s.json:1: #: 'multipleOf' should be above 0 but is '-1e3'"},
      {"{\"multipleOf\":\"2\"}", "s.json:1: #: 'multipleOf' should be a number but is a string"},
      {"{\"multipleOf\":12345678901}", "s.json:1: #: divisors with more than 9 digits or far from 1 are not supported"},
      {"{\"my/own\":true}", "s.json:1: #: keyword 'my/own' is not supported"},
      {"{\"type\":\"array\",\n\"uniqueItems\":\ntrue}",
       "s.json:3: #: keyword 'uniqueItems' is not supported here (a grammar cannot compare elements unless their "
       "values are listed)"},
      {"{\"type\":\"strin\"}", "s.json:1: #: 'type' should name types, and 'strin' is none"},
      {"{\"type\":[]}", "s.json:1: #: 'type' has no elements"},
      {"{\"type\":3}", "s.json:1: #: 'type' should name types, and '3' is none"},
      {"{\"enum\":[]}", "s.json:1: #: 'enum' has no elements"},
      {"{\"enum\":3}", "s.json:1: #: 'enum' should be an array but is a number"},
      {"{\"enum\":[1],\"type\":\"string\"}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"$ref\":\"#/$defs/x\"}", "s.json:1: #: $ref '#/$defs/x' refers to nothing: there is no '$defs' in '#'"},
      {"{\"$ref\":\"http://x/y\"}",
       "s.json:1: #: $ref 'http://x/y' is not supported (it leads to no schema of this file)"},
      {"{\n\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
       "s.json:2: nothing matches the schema at '#/properties/a'"},
      {"{\"anyOf\":[false]}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"anyOf\":{}}", "s.json:1: #: 'anyOf' should be an array but is an object"},
      {"{\"oneOf\":[{\"const\":1},{\"const\":1.0}]}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"minLength\":-1}", "s.json:1: #: 'minLength' should be a whole number from 0 but is '-1'"},
      {"{\"minLength\":\"x\"}", "s.json:1: #: 'minLength' should be a whole number from 0 but is 'x'"},
      {"{\"minLength\":3,\"maxLength\":2}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"minLength\":99999999999999999999}", "s.json:1: #: 'minLength' is more than 100000"},
      {"{\"minItems\":100001}", "s.json:1: #: 'minItems' is more than 100000"},
      {"{\"minItems\":2,\"maxItems\":1}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"items\":false,\"minItems\":1}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"type\":\"integer\",\"exclusiveMinimum\":2,\"exclusiveMaximum\":3}",
       "s.json:1: nothing matches the schema at '#'"},
      {"{\"minimum\":\"3\"}", "s.json:1: #: 'minimum' should be a number but is a string"},
      {"{\"minimum\":1e-1001}", "s.json:1: #: bounds of more than 1000 digits are not supported"},
      {"{\"required\":[\"a\"],\n\"properties\":{\"a\":false}}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"required\":[\"a\"],\"additionalProperties\":false}", "s.json:1: nothing matches the schema at '#'"},
      {"{\"required\":[1]}", "s.json:1: #: 'required' should hold names but holds a number"},
      {"{\"required\":true}", "s.json:1: #: 'required' should be an array but is true or false"},
      {"{\"$ref\":\"#/\\u0000\\u00e9%ff\"}", "s.json:1: #: $ref '#/" + std::string(1, '\0') +
                                                 "\xC3\xA9%ff' refers to nothing: there is no '" +
                                                 std::string(1, '\0') + "\xC3\xA9\uFFFD' in '#'"},
      {"{\"$ref\":\"#\"}", "s.json:1: #: $ref '#' leads back to itself"},
      {"{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/"
       "a\"}}}",
       "s.json:1: #/allOf/0: $ref '#/$defs/a' leads back to itself"},
      {"{\"unevaluatedItems\":false}", "s.json:1: #: keyword 'unevaluatedItems' is not supported"},
      {"{\"$dynamicRef\":\"#a\"}", "s.json:1: #: keyword '$dynamicRef' is not supported"},
      {"{\"not\":{\"additionalProperties\":false}}",
       "s.json:1: #/not: keyword 'additionalProperties' within 'not' is not supported"},
      {"{\"type\":\"object\",\"minProperties\":2}",
       "s.json:1: #: keyword 'minProperties' is not supported here (a grammar cannot see that names of properties that "
       "are "
       "not listed differ)"},
      {"{\"format\":\"regex\"}", "s.json:1: #: format 'regex' is not supported (without 'format', any string will do)"},
      {"{\"pattern\":\"(?<=a)b\"}", "s.json:1: #: pattern '(?<=a)b', character 1: lookbehind is not supported"},
  };
  for (const auto& [schema, wanted] : cases) {
    const std::string error = error_of([&, &schema = schema] { Grammar::from_json_schema(schema, "s.json"); });
    EXPECT_EQ(error, std::string(wanted.c_str())) << schema;
  }
}

// ---- Random generations ----

const char* const kOthers[] = {
    R"({"$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":3}},"required":["value"]}},"$ref":"#/$defs/tree"})",
    R"({"type":"object","properties":{"ab":{"type":"integer"},"abc":{"type":"string"}},"additionalProperties":{"type":"boolean"}})",
    R"({"type":"object","properties":{"x":{},"y":true},"required":["x","z"]})",
    R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number","exclusiveMinimum":0}},"required":["kind","r"]},{"type":"object","properties":{"kind":{"const":"line"},"to":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"items":false,"minItems":2}},"required":["kind","to"]}]})",
    R"({"anyOf":[{"type":"string","format":"date"},{"type":"string","format":"ipv4"},{"type":"string","format":"uuid"},{"type":"string","format":"time"}]})",
    R"({"type":"array","items":{"type":"number","minimum":-12.5,"maximum":7.25},"minItems":5,"maxItems":5})",
    R"({"type":"array","items":{"type":"string","pattern":"\"?[^a-z]b"},"minItems":2,"maxItems":4})",
    R"({"type":"object","required":["any"]})",
};

// Every byte, and pieces as tokenizers have them, across what JSON keeps apart.
const std::shared_ptr<const TokenTrie>& toy_vocabulary() {
  static const auto trie = std::make_shared<const TokenTrie>(test::byte_vocabulary(
      {"{\"",      "\":",      "\",\"", "\": \"", "\"}", "}]",  "},",    " {",    "[[",     "]]",    "null",    "true",
       "false",    "12",       "000",   ".5",     "-1",  "id",  "state", "items", "name",   " \"",   "\\u",     "\\n",
       "\xC3\xA9", "\xE2\x82", "e1",    "ab",     "abc", "\"]", "],[",   "kind",  "circle", "value", "children"}));
  return trie;
}

TEST(GrammarSchema, RandomGenerationsAreValid) {
  const std::vector<uint32_t> stops = {toy_vocabulary()->vocabulary_size() - 1};
  test::expect_valid_generations(test::kNestedSchema, toy_vocabulary(), stops, 500);
  for (const char* schema : kOthers) {
    SCOPED_TRACE(schema);
    test::expect_valid_generations(schema, toy_vocabulary(), stops, 100);
  }
}

}  // namespace
}  // namespace weft
