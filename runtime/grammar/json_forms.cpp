#include "grammar/json_forms.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {
namespace {

const CodePointSet& escaped() {  // must not stand in a string as they are
  static const CodePointSet set{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

}  // namespace

using Expr = JsonForms::Expr;

template <typename Make>
Expr JsonForms::once(std::optional<GrammarBuilder::Rule>& rule, const char* name, Make make) {
  if (!rule) {
    rule = builder_.declare(name);  // before it is made: it may use itself
    builder_.define(*rule, place_, make());
  }
  return builder_.call(*rule);
}

Expr JsonForms::spaced(std::optional<GrammarBuilder::Rule>& rule, const char* sign) {
  return once(rule, sign, [&] {
    return builder_.sequence({builder_.literal(sign), builder_.optional(builder_.literal(" "))});
  });
}

Expr JsonForms::list(const char* open, Expr element, const char* close) {
  const Expr more = builder_.repeat(builder_.sequence({comma(), element}), 0, GrammarBuilder::kUnbounded);
  const Expr elements = builder_.optional(builder_.sequence({element, more}));
  return builder_.sequence({builder_.literal(open), elements, builder_.literal(close)});
}

Expr JsonForms::value() {
  return once(value_, "any value", [&] {
    return builder_.choice({object(), array(), string(), number(), boolean(), null()});
  });
}

Expr JsonForms::object() {
  return once(object_, "any object", [&] { return list("{", builder_.sequence({string(), colon(), value()}), "}"); });
}

Expr JsonForms::array() {
  return once(array_, "any array", [&] { return list("[", value(), "]"); });
}

Expr JsonForms::string() {
  return once(string_, "any string", [&] {
    const Expr quote = builder_.literal("\"");
    return builder_.sequence({quote, builder_.repeat(character(), 0, GrammarBuilder::kUnbounded), quote});
  });
}

Expr JsonForms::number() {
  return once(number_, "any number", [&] {
    const auto digits = [&](uint32_t least) {
      return builder_.repeat(builder_.character({{'0', '9'}}), least, GrammarBuilder::kUnbounded);
    };
    const auto one_of = [&](char a, char b) {
      return builder_.character(
          {{static_cast<char32_t>(a), static_cast<char32_t>(a)}, {static_cast<char32_t>(b), static_cast<char32_t>(b)}});
    };
    const Expr whole =
        builder_.choice({builder_.literal("0"), builder_.sequence({builder_.character({{'1', '9'}}), digits(0)})});
    const Expr fraction = builder_.optional(builder_.sequence({builder_.literal("."), digits(1)}));
    const Expr exponent =
        builder_.optional(builder_.sequence({one_of('e', 'E'), builder_.optional(one_of('+', '-')), digits(1)}));
    return builder_.sequence({builder_.optional(builder_.literal("-")), whole, fraction, exponent});
  });
}

Expr JsonForms::number(const TextAutomaton& decimals) {
  return builder_.automaton(decimals, [&](const CodePointSet& set) { return builder_.character(set); });
}

Expr JsonForms::boolean() { return builder_.choice({builder_.literal("true"), builder_.literal("false")}); }

Expr JsonForms::exactly(const JsonTree& value) {
  std::vector<Expr> parts;
  const auto add_comma = [&](bool first) {
    if (!first) parts.push_back(comma());
  };
  switch (value.type) {
    case JsonTree::Type::string:
      return builder_.literal(json_string(value.text));
    case JsonTree::Type::array:
      parts.push_back(builder_.literal("["));
      for (const JsonTree& item : value.items) {
        add_comma(&item == &value.items.front());
        parts.push_back(exactly(item));
      }
      parts.push_back(builder_.literal("]"));
      return builder_.sequence(std::move(parts));
    case JsonTree::Type::object:
      parts.push_back(builder_.literal("{"));
      for (const JsonTree::Member& member : value.members) {
        add_comma(&member == &value.members.front());
        parts.insert(parts.end(), {builder_.literal(json_string(member.key)), colon(), exactly(member.value)});
      }
      parts.push_back(builder_.literal("}"));
      return builder_.sequence(std::move(parts));
    default:
      return builder_.literal(value.text);
  }
}

Expr JsonForms::character() {
  return once(character_, "any character", [&] {
    const CodePointSet hex_digits{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const auto hex = [&](const CodePointSet& set) { return builder_.character(set); };
    const Expr any = hex(hex_digits);
    // \uNNNN, but no surrogate other than in a pair.
    const CodePointSet d{{'D', 'D'}, {'d', 'd'}};
    const Expr plain = builder_.choice({builder_.sequence({hex(hex_digits.without(d)), any, any, any}),
                                        builder_.sequence({hex(d), hex({{'0', '7'}}), any, any})});
    const Expr pair = builder_.sequence({hex(d), hex({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), any, any,
                                         builder_.literal("\\u"), hex(d), hex({{'C', 'F'}, {'c', 'f'}}), any, any});
    const Expr unicode = builder_.sequence({builder_.literal("u"), builder_.choice({plain, pair})});
    CodePointSet letters;
    for (const char c : std::string("\"\\/bfnrt")) {
      letters = letters.united({{static_cast<char32_t>(c), static_cast<char32_t>(c)}});
    }
    const Expr escape =
        builder_.sequence({builder_.literal("\\"), builder_.choice({builder_.character(letters), unicode})});
    return builder_.choice({builder_.character(escaped().inverse()), escape});
  });
}

Expr JsonForms::character(const CodePointSet& set) {
  const auto [known, is_new] = characters_.try_emplace(set, 0);
  if (!is_new) return known->second;
  std::vector<Expr> options;
  if (const CodePointSet plain = set.without(escaped()); !plain.empty()) options.push_back(builder_.character(plain));
  for (const CodePointRange range : escaped().ranges()) {
    for (char32_t code = range.low; code <= range.high; ++code) {
      if (!set.contains(code)) continue;
      std::string text;
      append_utf8(text, code);
      const std::string quoted = json_string(text);
      options.push_back(builder_.literal(std::string_view(quoted).substr(1, quoted.size() - 2)));
    }
  }
  return known->second = builder_.choice(std::move(options));
}

}  // namespace weft
