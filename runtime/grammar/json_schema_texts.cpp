#include "grammar/json_schema_texts.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/regex_automaton.h"

namespace weft {
namespace {

using Part = JsonSchemaPart;

// Maximum of a text that is also something else; a larger maxLength is lowered to it.
constexpr uint32_t kMostLength = 4096;

// RFC 3339 (appendix A: years 0001 to 9999, leap years as they are, no leap seconds, upper case).
std::string date_pattern() {
  const std::string fours = "(?:0[48]|[2468][048]|[13579][26])";  // multiples of four, from 04 to 96
  return R"((?:(?:(?:\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})-)"
         R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])))"
         R"(|(?:\d\d)" +
         fours + "|" + fours + "00)-02-29))";
}
std::string time_pattern() {
  const std::string hour = R"((?:[01]\d|2[0-3]):[0-5]\d)";
  return hour + R"(:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-])" + hour + ")";
}

// ISO 8601 durations as RFC 3339 (appendix A) has them.
std::string duration_pattern() {
  const std::string time = R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))";
  return R"(P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:)" + time + ")?|" + time + ")";
}

// RFC 1123: labels of at most 63 characters, here at most four, which keeps the whole below 254. Not both the third and
// fourth character of a label both '-', which is a name in another alphabet.
std::string hostname_pattern() {
  const auto label = [](int inner) {
    return "(?!..--)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0," + std::to_string(inner) + "}[a-zA-Z0-9])?";
  };
  return label(59) + R"((?:\.)" + label(61) + "){0,3}";
}

std::string ipv4_pattern() {
  const std::string octet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return octet + R"((?:\.)" + octet + "){3}";
}

// RFC 4291.
std::string ipv6_pattern() {
  const std::string group = "[0-9a-fA-F]{1,4}", last = "(?:" + group + ":" + group + "|" + ipv4_pattern() + ")";
  const auto times = [&](const std::string& counts) { return "(?:" + group + ":)" + counts; };
  const auto before = [&](int count) {  // at most so many groups and one more, before "::"
    return "(?:(?:" + group + ":){0," + std::to_string(count) + "}" + group + ")?::";
  };
  return "(?:" + times("{6}") + last + "|::" + times("{5}") + last + "|(?:" + group + ")?::" + times("{4}") + last +
         "|" + before(1) + times("{3}") + last + "|" + before(2) + times("{2}") + last + "|" + before(3) + group + ":" +
         last + "|" + before(4) + last + "|" + before(5) + group + "|" + before(6) + ")";
}

// RFC 3986.
std::string uri_pattern(bool relative) {
  const std::string plain = R"(a-zA-Z0-9\-._~!$&'()*+,;=)";
  const auto characters = [&](const std::string& more) { return "(?:[" + plain + more + "]|%[0-9A-Fa-f]{2})"; };
  const std::string segment = characters(":@"), segments = "(?:/" + segment + "*)*";
  const std::string authority =
      "(?:" + characters(":") + "*@)?(?:\\[" + ipv6_pattern() + "\\]|" + characters("") + "*)(?::[0-9]*)?";
  const std::string rooted = "//" + authority + segments + "|/(?:" + segment + "+" + segments + ")?";
  const std::string uri = "[a-zA-Z][a-zA-Z0-9+.\\-]*:(?:" + rooted + "|" + segment + "+" + segments + ")?";
  const std::string rest = "(?:\\?(?:" + segment + "|[/?])*)?(?:#(?:" + segment + "|[/?])*)?";
  if (!relative) return uri + rest;
  return "(?:" + uri + "|(?:" + rooted + "|" + characters("@") + "+" + segments + ")?)" + rest;
}

// RFC 5321's mailboxes with plain local parts, as HTML has them, and names of hosts.
std::string email_pattern() {
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]";
  return atom + "{1,20}(?:\\." + atom + "{1,20}){0,2}@" + hostname_pattern();
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view name) {
  const std::string uuid = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-";
  const auto uuid_of = [&](char version) {
    return uuid + version + "[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}";
  };
  if (name == "date") return date_pattern();
  if (name == "time") return time_pattern();
  if (name == "date-time") return date_pattern() + "T" + time_pattern();
  if (name == "duration") return duration_pattern();
  if (name == "email") return email_pattern();
  if (name == "hostname") return hostname_pattern();
  if (name == "ipv4") return ipv4_pattern();
  if (name == "ipv6") return ipv6_pattern();
  if (name == "uri") return uri_pattern(false);
  if (name == "uri-reference") return uri_pattern(true);
  if (name == "uuid") return uuid + "(?:[0-9a-fA-F]{4}-){2}[0-9a-fA-F]{12}";
  if (name.size() == 5 && name.starts_with("uuid") && name[4] >= '1' && name[4] <= '8') return uuid_of(name[4]);
  if (name == "json-pointer") return "(?:/(?:[^/~]|~[01])*)*";
  if (name == "relative-json-pointer") return "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)";
  if (name == "byte" || name == "base64") return "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
  // Hints for people and databases.
  if (name == "password" || name == "binary" || name == "path" || name == "file-path" || name == "directory-path")
    return "[^]*";
  return std::nullopt;
}

template <typename Make>
auto JsonSchemaTexts::within(const Part& part, const JsonTree& tree, Make make) const {
  try {
    return make();
  } catch (const Error& error) {
    document_.fail(part, tree, error.sentence(), error.hint(), error.code());
  }
}

std::string JsonSchemaTexts::format(const Part& part, const JsonTree& name) const {
  if (!name.is(JsonTree::Type::string))
    document_.fail(part, name, "'format' should be a string but is " + type_name(name.type));
  const auto known = format_pattern(name.text);
  if (known) return *known;
  document_.fail(part, name, "format " + in_quotes(name.text) + " is not supported",
                 "without 'format', any string will do", Code::unsupported);
}

const TextAutomaton& JsonSchemaTexts::matching(const Part& part, const JsonTree& tree, const std::string& pattern,
                                               bool search) {
  const auto [slot, is_new] = known_.try_emplace({&tree, pattern});
  if (is_new) {
    slot->second = within(part, tree, [&] {
      const std::string place = document_.place_of(tree);
      return regex_automaton(parse_regex(pattern, place), search, place);
    });
  }
  return slot->second;
}

std::vector<Part> JsonSchemaTexts::property(const Part& part, const std::string& name) {
  std::vector<Part> schemas;
  const JsonTree* listed = part.tree->find("properties");
  if (listed != nullptr && listed->find(name) != nullptr) schemas.push_back(part.at("properties", name));
  if (const JsonTree* patterns = part.tree->find("patternProperties")) {
    for (const JsonTree::Member& member : patterns->members) {
      if (matching(part, member.value, member.key, true).accepts(name))
        schemas.push_back(part.at("patternProperties", member.key));
    }
  }
  if (schemas.empty() && part.tree->find("additionalProperties") != nullptr)
    schemas.push_back(part.at("additionalProperties"));
  return schemas;
}

std::optional<TextAutomaton> JsonSchemaTexts::satisfying(const SchemaCondition& condition) {
  const auto& [key, part, value, negated, name, index] = condition;
  TextAutomaton made;
  if (key == "pattern") {
    made = matching(part, *document_.find(part, key, JsonTree::Type::string), value->text, true);
  } else if (key == "format") {
    const std::string pattern = format(part, *value);
    if (pattern == "[^]*" && !negated) return std::nullopt;
    made = matching(part, *value, pattern, false);
  } else if (key == "minLength" || key == "maxLength") {
    const bool least = key == "minLength";
    uint32_t count = *document_.find_count(part, key);
    if (!least && !negated) count = std::min(count, kMostLength);
    made = within(part, *value,
                  [&] { return texts_of(CodePointSet::all(), least ? count : 0, least ? UINT32_MAX : count); });
  } else if (key == "const" || key == "enum") {
    std::vector<std::string_view> texts;
    if (key == "const" && value->is(JsonTree::Type::string)) texts.push_back(value->text);
    for (size_t i = 0; key == "enum" && i < value->items.size(); ++i) {
      if (value->items[i].is(JsonTree::Type::string)) texts.push_back(value->items[i].text);
    }
    made = within(part, *value, [&] { return listed_texts(texts); });
  } else {
    return std::nullopt;
  }
  return negated ? complement(made) : made;
}

TextAutomaton JsonSchemaTexts::satisfying(const SchemaBranch& branch) {
  TextAutomaton made = texts_of(CodePointSet::all(), 0, UINT32_MAX);
  for (const SchemaCondition& condition : branch.conditions) {
    const auto one = satisfying(condition);
    if (one) made = within(condition.part, *condition.value, [&] { return intersection(made, *one); });
  }
  return made;
}

TextAutomaton JsonSchemaTexts::satisfying(const SchemaTerms& terms) {
  TextAutomaton none = texts_of(CodePointSet::all(), 0, UINT32_MAX);  // texts of no branch
  for (const SchemaBranch& branch : schema_branches(document_, terms)) {
    if ((branch.types & kJsonString) == 0) continue;
    none =
        within(terms[0].part, *terms[0].part.tree, [&] { return intersection(none, complement(satisfying(branch))); });
  }
  return complement(none);
}

}  // namespace weft
