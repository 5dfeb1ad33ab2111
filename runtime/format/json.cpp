#include "format/json.h"

#include "format/limits.h"

#include <limits>
#include <optional>
#include <utility>

namespace weft {
namespace {

// Python's json module writes these literals, which JSON does not have. Each passes the parser as a string that begins
// with a private character.
constexpr std::string_view kMark = "\uF8FF", kLiterals[] = {"NaN", "Infinity", "-Infinity"};

// The text with marked strings for the literals; nothing if it has none.
std::optional<std::string> with_marked_literals(std::string_view text) {
  if (text.find("NaN") == std::string_view::npos && text.find("Infinity") == std::string_view::npos) return {};
  std::string out;
  size_t copied = 0;  // of the text
  bool within_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (within_string) {
      if (c == '\\') ++at;
      within_string = c != '"';
      continue;
    }
    within_string = c == '"';
    if (c != 'N' && c != 'I' && c != '-') continue;
    std::string_view literal;
    for (const std::string_view candidate : kLiterals)
      if (text.substr(at).starts_with(candidate)) literal = candidate;
    if (literal.empty()) continue;
    out.append(text.substr(copied, at - copied));
    out.append("\"").append(kMark).append(literal).append("\"");
    copied = at + literal.size();
    at = copied - 1;
  }
  if (copied == 0) return {};
  return out.append(text.substr(copied));
}

// Numbers for the marked strings.
void unmark(JsonValue& value, const std::string& place) {
  if (value.is_array()) {
    for (JsonValue& item : value.items()) unmark(item, place);
  } else if (value.is_object()) {
    for (auto& [name, member] : value.members()) {
      if (name.starts_with(kMark))
        throw Error(Code::bad_file, "no valid JSON: the key " + name.substr(kMark.size()) + " is no string", place);
      unmark(member, place);
    }
  } else if (value.is_string() && value.text().starts_with(kMark)) {
    const std::string_view literal = std::string_view(value.text()).substr(kMark.size());
    const double infinity = std::numeric_limits<double>::infinity();
    if (literal == "NaN")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (literal == "Infinity")
      value = infinity;
    else if (literal == "-Infinity")
      value = -infinity;
  }
}

}  // namespace

JsonValue parse_json(std::string_view text, const std::string& place) {
  const JsonLimits limits{kMaxJsonBytes, kMaxValues, kMaxJsonDepth};
  const std::optional<std::string> marked = text.size() <= kMaxJsonBytes ? with_marked_literals(text) : std::nullopt;
  JsonValue value = parse_json(marked ? std::string_view(*marked) : text, limits, Code::bad_file, place);
  if (marked) unmark(value, place);
  return value;
}

}  // namespace weft
