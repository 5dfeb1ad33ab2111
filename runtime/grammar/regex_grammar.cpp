#include "grammar/regex_grammar.h"

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/regex_automaton.h"
#include "grammar/regex_tree.h"

namespace weft {
namespace {

using Expr = GrammarBuilder::Expr;
using Kind = RegexTree::Kind;

// A tree without assertions, whose parts stay expressions: determinising a whole pattern can take far more states.
class Writer {
 public:
  Writer(GrammarBuilder& builder, const RegexStyle& style) : builder_(builder), style_(style) {}

  Expr write(const RegexTree& tree) {
    if (tree.is(Kind::characters)) return style_.character(tree.set);
    std::vector<Expr> parts;
    for (const RegexTree& part : tree.parts) parts.push_back(write(part));
    if (tree.is(Kind::repeat)) return builder_.repeat(parts[0], tree.least, tree.most);
    return tree.is(Kind::choice) ? builder_.choice(std::move(parts)) : builder_.sequence(std::move(parts));
  }

  // An alternative of the pattern itself, whose first and last part may be an anchor.
  Expr outermost(const RegexTree& tree) {
    RegexTree inside = tree;
    const auto take = [&](bool first, Kind anchor) {
      if (inside.kind != Kind::sequence || inside.parts.empty()) return false;
      const auto at = first ? inside.parts.begin() : inside.parts.end() - 1;
      if (!at->is(anchor)) return false;
      inside.parts.erase(at);
      return true;
    };
    const bool from_start = take(true, Kind::begin) || !style_.search,
               to_end = take(false, Kind::end) || !style_.search;
    const Expr rest = builder_.repeat(style_.character(CodePointSet::all()), 0, GrammarBuilder::kUnbounded);
    std::vector<Expr> parts;
    if (!from_start) parts.push_back(rest);
    parts.push_back(write(inside));
    if (!to_end) parts.push_back(rest);
    return builder_.sequence(std::move(parts));
  }

  static bool has_inner_assertions(const RegexTree& alternative) {
    if (!alternative.is(Kind::sequence)) return alternative.has_assertions();
    for (size_t i = 0; i < alternative.parts.size(); ++i) {
      const RegexTree& part = alternative.parts[i];
      const bool anchor = (i == 0 && part.is(Kind::begin)) || (i + 1 == alternative.parts.size() && part.is(Kind::end));
      if (!anchor && part.has_assertions()) return true;
    }
    return false;
  }

 private:
  GrammarBuilder& builder_;
  const RegexStyle& style_;
};

}  // namespace

Expr add_regex(GrammarBuilder& builder, std::string_view pattern, const std::string& place, const RegexStyle& style) {
  RegexTree tree = parse_regex(pattern, place);
  std::vector<RegexTree> alternatives;
  if (tree.is(Kind::choice)) {
    alternatives = std::move(tree.parts);
  } else {
    alternatives.push_back(std::move(tree));
  }
  Writer writer(builder, style);
  std::vector<Expr> options;
  for (const RegexTree& alternative : alternatives) {
    if (!Writer::has_inner_assertions(alternative)) {
      options.push_back(writer.outermost(alternative));
      continue;
    }
    const TextAutomaton automaton = regex_automaton(alternative, style.search, place);
    if (!automaton.empty()) options.push_back(builder.automaton(automaton, style.character));
  }
  if (options.empty()) throw Error(Code::bad_file, "no text matches pattern " + in_quotes(pattern), place);
  return builder.choice(std::move(options));
}

Grammar Grammar::from_regex(std::string_view pattern, const std::string& place) {
  GrammarBuilder builder(place);
  const RegexStyle style{[&](const CodePointSet& set) { return builder.character(set); }};
  const auto root = builder.declare("pattern");
  builder.define(root, place, add_regex(builder, pattern, place, style));
  return builder.finish(root);
}

}  // namespace weft
