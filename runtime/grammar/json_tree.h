// JSON as its author wrote it. A schema needs what a JsonValue drops: the spelling of numbers (bounds are compared as
// decimals), and the line of everything (for errors).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct JsonTree {
  enum class Type { null, boolean, integer, number, string, array, object };
  struct Member;

  Type type = Type::null;
  uint32_t line = 0;  // from 1; of an array's or object's opening bracket
  std::string text;   // a string's value; a number as it is written; "true", "false" or "null"
  std::vector<JsonTree> items;
  std::vector<Member> members;  // in the order of the text

  bool is(Type wanted) const { return type == wanted; }
  // The member called key, or nullptr; also where this is no object.
  const JsonTree* find(std::string_view key) const;
};

struct JsonTree::Member {
  std::string key;
  JsonTree value;
};

// "an array", "a string", ...
std::string type_name(JsonTree::Type type);

// A text in quotes as JSON has it, escaping no more than it must.
std::string json_string(std::string_view text);

// One JSON document (RFC 8259) of at most 1 MiB, arrays and objects at most 64 deep, a key in an object only once.
// Throws Error(bad_file) with place + ":LINE".
JsonTree parse_json_tree(std::string_view text, const std::string& place);

}  // namespace weft
