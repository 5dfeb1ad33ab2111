#include "base/oniguruma.h"

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

namespace {

// The White_Space property, and letters, marks, numbers and connectors: to stand within a class.
constexpr const char* kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr const char* kWords = R"(\p{L}\p{M}\p{N}\p{Pc})";

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& place) {
  const auto unsupported = [&](const char* what) {
    throw Error(Code::unsupported,
                std::string("not supported: ") + what + " in the tokenizer's pattern " + in_quotes(pattern), place);
  };
  std::string out;
  int depth = 0;  // of classes
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    if (rest.starts_with('\\') && rest.size() > 1) {
      const char letter = rest[1];
      const bool spaces = letter == 's' || letter == 'S', words = letter == 'w' || letter == 'W';
      const bool inverse = letter == 'S' || letter == 'W';
      if ((spaces || words) && !(inverse && depth > 0)) {
        const std::string set = spaces ? kSpaces : kWords;
        out += depth > 0 ? set : (inverse ? "[^" : "[") + set + "]";
      } else {
        out += rest.substr(0, 2);
      }
      ++at;
    } else if (depth > 0 && rest.starts_with("[:")) {
      const size_t end = rest.find(":]");
      const size_t size = end == rest.npos ? 2 : end + 2;
      out += rest.substr(0, size);
      at += size - 1;
    } else if (rest.starts_with('[')) {
      if (depth > 0 && rest.starts_with("[^")) unsupported("a negated class within a class");
      if (depth++ == 0) out += '[';
      if (rest.starts_with("[^")) {
        out += '^';
        ++at;
      }
      if (at + 1 < pattern.size() && pattern[at + 1] == ']') {  // at the front it stands for itself
        out += "\\]";
        ++at;
      }
    } else if (depth > 0 && rest.starts_with(']')) {
      if (--depth == 0) out += ']';
    } else {
      if (depth > 0 && rest.starts_with("&&")) unsupported("an intersection of classes");
      out += rest[0];
    }
  }
  return out;
}

}  // namespace weft
