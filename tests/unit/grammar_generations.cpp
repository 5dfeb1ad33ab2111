#include "grammar_generations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "grammar_support.h"
#include "reference/json_schema.h"

namespace weft::test {

const char* const kNestedSchema = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "an order",
  "type": "object",
  "properties": {
    "id": {"type": "integer", "minimum": 1, "maximum": 99999},
    "state": {"enum": ["new", "paid", "sent", null]},
    "customer": {
      "type": "object",
      "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "mail": {"type": "string", "pattern": "^[a-z]+@[a-z]+\\.(com|org)$"},
        "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 150}
      },
      "required": ["name"]
    },
    "items": {
      "type": "array",
      "minItems": 1,
      "maxItems": 4,
      "items": {
        "type": "object",
        "properties": {
          "sku": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
          "price": {"type": "number", "minimum": 0, "exclusiveMaximum": 1000.5},
          "tags": {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "maxItems": 2}, "maxItems": 3},
          "ratio": {"type": "number"}
        },
        "required": ["sku", "price"],
        "additionalProperties": false
      }
    },
    "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, "maxItems": 3},
    "ordered": {"type": "string", "format": "date-time"}
  },
  "required": ["id", "state", "items", "matrix"]
})";

namespace {

uint32_t token_of(const TokenTrie& trie, const std::string& text) {
  for (uint32_t id = 0; id < trie.vocabulary_size(); ++id) {
    if (trie.bytes(id) == text) return id;
  }
  return UINT32_MAX;
}

// Random allowed tokens; once a text is long, often those that may lead to its end.
std::string random_text(Matcher& matcher, const TokenTrie& trie, const std::vector<uint32_t>& stops,
                        std::mt19937_64& random) {
  matcher.reset();
  std::string text;
  for (int step = 0; step < 3000 && !matcher.finished(); ++step) {
    const TokenSet& allowed = matcher.allowed();
    EXPECT_GT(allowed.count, 0u);
    std::vector<uint32_t> ids = allowed.ids;
    for (uint32_t id = 0; ids.empty() && id < trie.vocabulary_size(); id += 1 + static_cast<uint32_t>(random() % 50)) {
      if (allowed.contains(id)) ids.push_back(id);
    }
    uint32_t next = ids[random() % ids.size()];
    if (text.size() > 150 || random() % 3 == 0) {
      static const char* const kEnding[] = {"\"", "\"", "\"", "}", "]", ":", "0", "@", ".", "b", "c"};
      const std::string wanted = kEnding[random() % std::size(kEnding)];
      const uint32_t id = token_of(trie, wanted);
      if (allowed.contains(id)) next = id;
    }
    if (matcher.may_end() && std::find(ids.begin(), ids.end(), stops[0]) != ids.end() && random() % 2 == 0)
      next = stops[0];
    matcher.accept(next);
    text += next == stops[0] ? "" : trie.bytes(next);
  }
  EXPECT_TRUE(matcher.finished()) << text;
  return text;
}

}  // namespace

void expect_valid_generations(const char* schema_text, const std::shared_ptr<const TokenTrie>& trie,
                              const std::vector<uint32_t>& stops, int count) {
  const nlohmann::json schema = nlohmann::json::parse(schema_text);
  Matcher matcher(share(Grammar::from_json_schema(schema_text, "s.json")), trie, stops);
  std::mt19937_64 random(42);
  std::set<std::string> different;
  for (int i = 0; i < count; ++i) {
    const std::string text = random_text(matcher, *trie, stops, random);
    nlohmann::json value;
    // No double holds a number with a larger exponent.
    const std::string readable =
        std::regex_replace(text, std::regex("([:,\\[] ?-?[0-9.]+[eE][+-]?[0-9]{2})[0-9]+"), "$1");
    ASSERT_NO_THROW(value = nlohmann::json::parse(readable)) << text;
    ASSERT_EQ(reference::why_invalid(value, schema, schema), "") << text;
    different.insert(text);
  }
  EXPECT_GT(different.size(), static_cast<size_t>(count) / 2);
}

}  // namespace weft::test
