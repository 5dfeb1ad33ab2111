// Readers of untrusted text, on a thread with a stack of 256 KiB: nesting of every kind is an answer or
// an error.
#include "support/small_stack.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/regex.h"
#include "format/json.h"
#include "grammar/matcher.h"
#include "support/json_value.h"
#include "template/chat_template.h"

namespace weft {
namespace {

std::string times(size_t count, const std::string& text) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string nested(size_t count, const std::string& open, const std::string& inside, const std::string& close) {
  return times(count, open) + inside + times(count, close);
}

// Returns the error that the work throws on a small stack; empty if it throws nothing.
std::string error_of(const std::function<void()>& work) {
  std::string what;
  test::on_small_stack([&] {
    try {
      work();
    } catch (const Error& error) {
      what = error.what();
    }
  });
  return what;
}

std::string render(const std::string& source) {
  return error_of([&] {
    const std::vector<Message> messages = {{"user", "a"}};
    ChatTemplate(source, {}, "m").render(messages, true);
  });
}

const size_t kDepths[] = {8, 16, 31, 47, 63, 64, 100, 180, 199, 200, 255, 1000, 100000};

// Expressions multiply with the calls of a macro.
TEST(SmallStack, AMacroThatCallsItselfWithinAnExpression) {
  const auto calls = [](const std::string& around, const std::string& behind) {
    return render("{% macro f() %}{{ " + around + "f()" + behind + " }}{% endmacro %}{{ f() }}");
  };
  const std::string deep = "too deeply";
  EXPECT_NE(calls("", times(195, " ~ 1")).find(deep), std::string::npos);
  EXPECT_NE(calls("", "").find(deep), std::string::npos);
  EXPECT_NE(calls(times(14, "["), times(14, "]")).find(deep), std::string::npos);
  EXPECT_NE(calls("", times(150, "|string")).find(deep), std::string::npos);
  EXPECT_NE(calls("", times(150, ".x")).find(deep), std::string::npos);
  EXPECT_NE(calls("1 if not ", " else 2").find(deep), std::string::npos);
  EXPECT_NE(calls("x[", "]").find(deep), std::string::npos);
  EXPECT_NE(calls("[1]|map(", ")").find(deep), std::string::npos);
  EXPECT_NE(calls("1 in ", times(20, " == 1")).find(deep), std::string::npos);
  EXPECT_NE(calls("{'a': (1, ", ")}").find(deep), std::string::npos);
  EXPECT_NE(calls("range(", ")").find(deep), std::string::npos);
  EXPECT_NE(calls("'a'.join(", ")").find(deep), std::string::npos);
  for (const char* body :
       {"{% if f() %}{% endif %}", "{% for x in f() %}{% endfor %}", "{% for x in [1] %}{{ f() }}{% endfor %}",
        "{% set x %}{{ f() }}{% endset %}", "{% filter trim %}{{ f() }}{% endfilter %}",
        "{% with x = f() %}{% endwith %}", "{% generation %}{{ f() }}{% endgeneration %}", "{% set x = f() %}",
        "{% for x in [1] if f() %}{% endfor %}"}) {
    EXPECT_NE(render(std::string("{% macro f() %}") + body + "{% endmacro %}{{ f() }}").find(deep), std::string::npos)
        << body;
  }
  EXPECT_NE(render("{% macro f(a=f()) %}{% endmacro %}{{ f() }}").find(deep), std::string::npos);
  EXPECT_NE(render("{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}").find(deep), std::string::npos);
}

// A filter that applies another, named by its arguments, goes one deeper for each of them.
TEST(SmallStack, FiltersNamedByFilters) {
  for (const size_t depth : kDepths) {
    const std::string error = render("{{ 'a' | map(" + times(depth, "'map', ") + "'upper') | list }}");
    if (depth > 1000) {
      EXPECT_FALSE(error.empty());
    }
  }
}

TEST(SmallStack, TemplatesNestedByEveryBracketAndTag) {
  for (const size_t depth : kDepths) {
    for (const auto& [open, inside, close] :
         std::initializer_list<std::array<const char*, 3>>{{"(", "1", ")"},
                                                           {"[", "1", "]"},
                                                           {"{1:", "1", "}"},
                                                           {"not ", "1", ""},
                                                           {"- ", "1", ""},
                                                           {"x[", "1", "]"},
                                                           {"f(", "1", ")"},
                                                           {"1 if 1 else ", "1", ""},
                                                           {"1 ~ ", "1", ""},
                                                           {"1 ** ", "1", ""},
                                                           {"1 or ", "1", ""},
                                                           {"1 and ", "1", ""},
                                                           {"1 < ", "1", ""},
                                                           {"", "x", "|string"},
                                                           {"", "x", " is defined"},
                                                           {"", "x", ".x"},
                                                           {"", "x", "[0]"},
                                                           {"", "x", "()"},
                                                           {"", "x", "[1:2]"}}) {
      const std::string error = render("{{ " + nested(depth, open, inside, close) + " }}");
      if (depth > 1000 && open != std::string("1 < ")) {
        EXPECT_FALSE(error.empty()) << open << inside << close;
      }
    }
    for (const auto& [open, close] :
         std::initializer_list<std::array<const char*, 2>>{{"{% if 1 %}", "{% endif %}"},
                                                           {"{% if 0 %}{% else %}", "{% endif %}"},
                                                           {"{% for x in [1] %}", "{% endfor %}"},
                                                           {"{% set x %}", "{% endset %}"},
                                                           {"{% filter trim %}", "{% endfilter %}"},
                                                           {"{% with x = 1 %}", "{% endwith %}"},
                                                           {"{% macro f() %}", "{% endmacro %}"},
                                                           {"{% generation %}", "{% endgeneration %}"}}) {
      const std::string error = render(nested(depth, open, "x", close));
      if (depth > 1000) {
        EXPECT_FALSE(error.empty()) << open;
      }
    }
  }
}

// Lists that a loop wraps into one another.
TEST(SmallStack, ValuesNestedWhileRunning) {
  for (const char* use : {"{{ n.x }}", "{{ n.x == n.y }}", "{{ n.x | tojson(indent=1) }}", "{{ n.x | string }}"}) {
    for (const char* wrap : {"[n.x]", "(n.x,)", "{'a': n.x}"}) {
      for (const size_t depth : kDepths) {
        if (depth > 1000) continue;
        render("{% set n = namespace(x=1, y=1) %}{% for i in range(" + std::to_string(depth) +
               ") %}{% set n.x = " + wrap + " %}{% set n.y = " + wrap + " %}{% endfor %}" + use);
      }
    }
  }
}

TEST(SmallStack, JsonDocuments) {
  for (const size_t depth : kDepths) {
    for (const auto& text : {nested(depth, "[", "1", "]"), nested(depth, "{\"a\":", "1", "}"), times(depth, "[")}) {
      const std::string error = error_of([&] { parse_json(text, "m").dump(); });
      if (depth > 64) {
        EXPECT_FALSE(error.empty());
      }
    }
  }
}

std::string gbnf(const std::string& text) {
  return error_of([&] { Grammar::from_gbnf(text, "m"); });
}

std::string schema(const std::string& text) {
  return error_of([&] { Grammar::from_json_schema(text, "m"); });
}

std::string regex(const std::string& text) {
  return error_of([&] { Grammar::from_regex(text, "m"); });
}

TEST(SmallStack, Gbnf) {
  for (const size_t depth : kDepths) {
    for (const char* close : {")", ")*", ")?", "){2,3}", ")*?*?", " \"b\" | \"c\" )*?*?", ")+ \"b\" | \"c\""}) {
      const std::string error = gbnf("root ::= " + nested(depth, "(", "\"a\"", close));
      if (depth > 1000) {
        EXPECT_FALSE(error.empty()) << close;
      }
    }
    std::string rules = "root ::= r0\n";
    for (size_t i = 0; i < std::min<size_t>(depth, 20000); ++i)
      rules += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "\n";
    gbnf(rules + "r" + std::to_string(std::min<size_t>(depth, 20000)) + " ::= \"b\"\n");
    std::string left;
    for (size_t i = 0; i < std::min<size_t>(depth, 20000); ++i)
      left += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
    EXPECT_FALSE(
        gbnf("root ::= r0\n" + left + "r" + std::to_string(std::min<size_t>(depth, 20000)) + " ::= r0\n").empty());
  }
}

TEST(SmallStack, RegularExpressions) {
  for (const size_t depth : kDepths) {
    for (const char* close : {")", ")*", ")?", "){2,3}", "b|c)+"}) {
      const std::string error = regex(nested(depth, "(", "a", close));
      if (depth > 1000) {
        EXPECT_FALSE(error.empty()) << close;
      }
    }
  }
}

TEST(SmallStack, JsonSchemas) {
  for (const size_t depth : kDepths) {
    for (const auto& [open, close] :
         std::initializer_list<std::array<const char*, 2>>{{R"({"items":)", "}"},
                                                           {R"({"prefixItems":[)", "]}"},
                                                           {R"({"properties":{"a":)", "}}"},
                                                           {R"({"additionalProperties":)", "}"},
                                                           {R"({"anyOf":[)", "]}"},
                                                           {R"({"oneOf":[{"type":"null"},)", "]}"},
                                                           {R"({"allOf":[)", "]}"}}) {
      const std::string error = schema(nested(depth, open, R"({"type":"string"})", close));
      if (depth > 1000) {
        EXPECT_FALSE(error.empty()) << open;
      }
      if (depth > 255) continue;
      // A pattern has a depth of its own.
      schema(
          nested(std::min<size_t>(depth, 30), open, R"({"pattern":")" + nested(depth, "(", "a", ")?") + "\"}", close));
    }
    schema(R"({"const":)" + nested(depth, "[", "1", "]") + "}");
    schema(R"({"enum":[)" + nested(depth, "{\"a\":", "1", "}") + "]}");
  }
}

// References lead from one alternative to the next where no bracket nests.
TEST(SmallStack, AlternativesThatReferToOneAnother) {
  for (const size_t count : {10u, 100u, 1000u, 15000u}) {
    std::string text = R"({"oneOf":[{"type":"null"},{"$ref":"#/$defs/0"}],"$defs":{)";
    for (size_t i = 0; i < count; ++i)
      text += '"' + std::to_string(i) + R"(":{"anyOf":[{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"}]},";
    const std::string error = schema(text + '"' + std::to_string(count) + R"(":{"type":"string"}}})");
    if (count <= 10) {
      EXPECT_EQ(error, "");
    }
  }
}

TEST(SmallStack, PatternsOfTokenizers) {
  for (const size_t depth : kDepths) {
    for (const auto& brackets : std::initializer_list<std::array<const char*, 2>>{
             {"(", ")"}, {"(?:", ")*"}, {"(?=", ")"}, {"(?<=", ")"}, {"(?>", ")+"}, {"(?i:", "|b)?"}, {"[", "]"}}) {
      error_of([&] {
        const Regex pattern(nested(depth, brackets[0], "a", brackets[1]), "m");
        pattern.find_all(times(2000, "ab "));
      });
    }
    error_of([&] { Regex("(a|b)*" + times(std::min<size_t>(depth, 1000), "a?"), "m").find_all(times(20000, "ab ")); });
  }
}

}  // namespace
}  // namespace weft
