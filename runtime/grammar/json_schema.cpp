// JSON Schema (https://json-schema.org/draft/2020-12) as a grammar: each text of the grammar is a JSON text that the
// schema accepts.
//
// It need not be the other way round: of the texts a schema accepts, the grammar has those of one form.
// - One space, or none, after ',' and ':'; none elsewhere.
// - Properties in the order of `properties`, any others after them.
// - Without `additionalProperties`, an object that has `properties` or `patternProperties` gets no others. Names that
// are
//   not listed have no escapes but those that must be; that no name comes twice is beyond a grammar.
// - Without `type`, the types that the other keywords apply to; any type if there are none.
// - Whole numbers as digits, without a point, although JSON Schema takes 1.0 for one. Numbers with bounds or
//   `multipleOf` without an exponent. Both kinds write zero without a sign. Their length has no limit but the schema's.
// - Values of `enum` and `const`, and strings with `pattern` or `format`, with the escapes that must be and no others.
//
// All keywords of the draft are supported but $dynamicRef, unevaluatedItems, unevaluatedProperties and the keywords of
// content; `items` as an array, `additionalItems` and `dependencies` are those of earlier drafts. json_schema_texts.cpp
// has the formats. A keyword that is not supported, or not in this combination, is refused by name: ignoring it would
// accept what its author meant to exclude. `not` is pushed inwards (json_schema_conditions.h).
//
// Ignored, as annotations: title, description, default, examples, deprecated, readOnly, writeOnly, contentMediaType,
// contentEncoding, $comment, $schema, $defs, definitions, and the outermost $id.
//
// Repetition counts above GrammarBuilder::kMaxRepeat are lowered to it as a maximum and refused as a minimum; maxLength
// beside `pattern` or `format` is lowered to 4096.
#include <algorithm>

#include "base/utf8.h"
#include "grammar/decimal_ranges.h"
#include "grammar/json_schema.h"
#include "grammar/json_schema_check.h"
#include "grammar/json_schema_compiler.h"
#include "grammar/regex_grammar.h"

namespace weft {

using Expr = GrammarBuilder::Expr;
using Type = JsonTree::Type;

namespace {

constexpr uint32_t kUnbounded = GrammarBuilder::kUnbounded;
constexpr size_t kMaxRules = 1 << 15;

bool is_list(const SchemaCondition& condition) { return condition.key == "const" || condition.key == "enum"; }

}  // namespace

void JsonSchemaCompiler::refuse(const SchemaCondition& condition, const std::string& why) const {
  const std::string name(condition.key);
  document_.fail(condition.part, *condition.value,
                 condition.negated ? "keyword '" + name + "' within 'not' is not supported"
                                   : "keyword '" + name + "' is not supported here",
                 why, Code::unsupported);
}

GrammarBuilder::Rule JsonSchemaCompiler::run() {
  const SchemaTerms root = {{document_.root(), false}};
  const GrammarBuilder::Rule first = builder_.declare("#");
  rules_[{{root[0].part.tree, false}}] = first;
  pending_.push_back({first, root});
  while (!pending_.empty()) {
    const auto [rule, terms] = std::move(pending_.back());
    pending_.pop_back();
    builder_.define(rule, document_.place_of(*terms[0].part.tree), compile(terms));
  }
  return first;
}

Expr JsonSchemaCompiler::values(const SchemaTerms& given) {
  SchemaTerms terms;
  Key key;
  for (const SchemaTerm& term : given) {
    const bool says_nothing = term.part.tree->is(Type::boolean) && (term.part.tree->text == "true") != term.negated;
    if (says_nothing) continue;
    key.push_back({term.part.tree, term.negated});
    terms.push_back(term);
  }
  if (terms.empty()) return forms_.value();
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [slot, is_new] = rules_.try_emplace(std::move(key), 0);
  if (is_new) {
    if (rules_.size() > kMaxRules) {
      document_.fail(terms[0].part, *terms[0].part.tree, "its combinations with other schemas are too many", {},
                     Code::unsupported);
    }
    slot->second = builder_.declare(terms[0].part.pointer);
    pending_.push_back({slot->second, std::move(terms)});
  }
  return builder_.call(slot->second);
}

// Nothing matches what has no options: the builder drops whatever needs it.
Expr JsonSchemaCompiler::compile(const SchemaTerms& terms) {
  std::vector<Expr> options;
  std::vector<const JsonTree*> listed;
  try {
    for (const SchemaBranch& one : schema_branches(document_, terms)) options.push_back(branch(one, terms, listed));
  } catch (const Error& error) {
    if (!error.place().empty()) throw;
    document_.fail(terms[0].part, *terms[0].part.tree, error.sentence(), error.hint(), error.code());
  }
  for (const JsonTree* value : listed) options.push_back(forms_.exactly(*value));
  return builder_.choice(std::move(options));
}

// Adds the listed values of a branch to those of the others; another branch's values are its expression.
Expr JsonSchemaCompiler::branch(const SchemaBranch& branch, const SchemaTerms& terms,
                                std::vector<const JsonTree*>& listed) {
  if (const auto values = listed_values(branch, terms)) {
    for (const JsonTree* value : *values) {
      if (std::find(listed.begin(), listed.end(), value) == listed.end()) listed.push_back(value);
    }
    return builder_.choice({});
  }
  std::vector<Expr> options;
  if (branch.conditions.empty() && branch.types == kJsonAny) return forms_.value();
  uint32_t types = branch.types;
  for (const SchemaCondition& condition : branch.conditions) {
    if (!is_list(condition)) continue;  // negated
    const auto exclude = [&](const JsonTree& value) {
      if (value.is(Type::null)) types &= ~kJsonNull;
      const bool is_empty = value.items.empty() && value.members.empty();
      const bool structured = (json_type(value) & types & (kJsonArray | kJsonObject)) != 0;
      if (structured)
        refuse(condition,
               is_empty ? "write 'minItems' or 'minProperties'" : "a grammar excludes no single array or object");
    };
    if (condition.key == "const") {
      exclude(*condition.value);
    } else {
      for (const JsonTree& value : condition.value->items) exclude(value);
    }
  }
  const auto add = [&](std::optional<Expr> made) {
    if (made) options.push_back(*made);
  };
  if (types & kJsonObject) add(object(branch));
  if (types & kJsonArray) add(array(branch));
  if (types & kJsonString) add(string(branch));
  if (types & kJsonNumber) add(number(branch, types));
  if (types & kJsonBoolean) {
    for (const char* text : {"true", "false"}) {
      const auto lists = [&](const SchemaCondition& condition) {
        const auto same = [&](const JsonTree& value) { return value.is(Type::boolean) && value.text == text; };
        if (!is_list(condition)) return false;
        return condition.key == "const"
                   ? same(*condition.value)
                   : std::any_of(condition.value->items.begin(), condition.value->items.end(), same);
      };
      if (std::none_of(branch.conditions.begin(), branch.conditions.end(), lists))
        options.push_back(builder_.literal(text));
    }
  }
  if (types & kJsonNull) options.push_back(forms_.null());
  return builder_.choice(std::move(options));
}

std::optional<std::vector<const JsonTree*>> JsonSchemaCompiler::listed_values(const SchemaBranch& branch,
                                                                              const SchemaTerms& terms) {
  const auto list =
      std::find_if(branch.conditions.begin(), branch.conditions.end(),
                   [](const SchemaCondition& condition) { return is_list(condition) && !condition.negated; });
  if (list == branch.conditions.end()) return std::nullopt;
  std::vector<const JsonTree*> values;
  const auto add = [&](const JsonTree& value) {
    if ((json_type(value) & branch.types) != 0 && satisfies(value, terms, document_, texts_)) values.push_back(&value);
  };
  if (list->key == "const") {
    add(*list->value);
  } else {
    for (const JsonTree& value : list->value->items) add(value);
  }
  return values;
}

std::optional<std::vector<const JsonTree*>> JsonSchemaCompiler::all_values(const SchemaTerms& terms) {
  static const JsonTree kScalars[] = {
      {Type::null, 1, "null", {}, {}}, {Type::boolean, 1, "false", {}, {}}, {Type::boolean, 1, "true", {}, {}}};
  std::vector<const JsonTree*> all;
  for (const SchemaBranch& branch : schema_branches(document_, terms)) {
    if (const auto values = listed_values(branch, terms)) {
      all.insert(all.end(), values->begin(), values->end());
      continue;
    }
    if ((branch.types & ~(kJsonNull | kJsonBoolean)) != 0) return std::nullopt;
    for (const JsonTree& scalar : kScalars) {
      if ((json_type(scalar) & branch.types) != 0 && satisfies(scalar, terms, document_, texts_))
        all.push_back(&scalar);
    }
  }
  return all;
}

// ---- Strings and numbers ----

std::optional<Expr> JsonSchemaCompiler::string(const SchemaBranch& branch) {
  const auto character = [&](const CodePointSet& set) { return forms_.character(set); };
  const Expr quote = builder_.literal("\"");
  const auto quoted = [&](Expr inside) { return builder_.sequence({quote, inside, quote}); };
  uint32_t least = 0, most = kUnbounded;
  const SchemaCondition* only = nullptr;  // the only pattern or format
  bool simple = true;
  for (const SchemaCondition& condition : branch.conditions) {
    const bool length = condition.key == "minLength" || condition.key == "maxLength";
    const bool text = condition.key == "pattern" || condition.key == "format";
    if (length) {
      const uint32_t count = *document_.find_count(condition.part, condition.key);
      if (condition.negated && condition.key == "minLength" && count == 0) return std::nullopt;
      if ((condition.key == "minLength") != condition.negated) {
        least = std::max(least, condition.negated ? count + 1 : count);
        if (least > GrammarBuilder::kMaxRepeat) {
          fail(condition.part, *condition.value,
               "'minLength' is more than " + std::to_string(GrammarBuilder::kMaxRepeat));
        }
      } else {
        most = std::min(most, condition.negated ? count - 1 : count);
      }
    } else if (text) {
      simple = simple && only == nullptr && !condition.negated;
      only = &condition;
    } else if (is_list(condition)) {
      simple = false;
    }
  }
  const bool lengths = least > 0 || most != kUnbounded;
  if (least > most) return std::nullopt;
  if (simple && only == nullptr) {
    if (!lengths) return forms_.string();
    most = most == kUnbounded ? most : std::min(most, GrammarBuilder::kMaxRepeat);
    return quoted(builder_.repeat(forms_.character(), least, most));
  }
  if (simple && !lengths) {
    // Not as an automaton: determinising a pattern can take far more states.
    const bool search = only->key == "pattern";
    const std::string pattern = search ? only->value->text : texts_.format(only->part, *only->value);
    try {
      return quoted(add_regex(builder_, pattern, document_.place_of(*only->value), {character, search}));
    } catch (const Error& error) {
      document_.fail(only->part, *only->value, error.sentence(), error.hint(), error.code());
    }
  }
  const TextAutomaton texts = texts_.satisfying(branch);
  if (texts.empty()) return std::nullopt;
  return quoted(builder_.automaton(texts, character));
}

std::optional<Expr> JsonSchemaCompiler::number(const SchemaBranch& branch, uint32_t types) {
  DecimalSet set;
  set.whole = (types & kJsonNumber) == kJsonInteger;
  if ((types & kJsonNumber) == kJsonFraction) set.divisors.push_back({parse_decimal("1"), true});
  std::vector<Decimal> excluded;
  const SchemaCondition* last = nullptr;
  for (const SchemaCondition& condition : branch.conditions) {
    const std::string_view key = condition.key;
    if (is_list(condition)) {
      const auto exclude = [&](const JsonTree& value) {
        if ((json_type(value) & kJsonNumber) != 0) excluded.push_back(parse_decimal(value.text));
      };
      if (key == "const") exclude(*condition.value);
      for (size_t i = 0; key == "enum" && i < condition.value->items.size(); ++i) exclude(condition.value->items[i]);
    } else if (JsonSchemaDocument::types_of_keyword(key) == kJsonNumber) {
      last = &condition;
      const Decimal value = document_.number(condition.part, key);
      const bool exclusive = key.starts_with("exclusive") != condition.negated;
      if (key == "multipleOf") {
        set.divisors.push_back({value, condition.negated});
      } else if (key.ends_with("inimum") != condition.negated) {
        set.add_least({value, exclusive});
      } else {
        set.add_most({value, exclusive});
      }
    }
  }
  if (!set.whole && !set.least && !set.most && set.divisors.empty() && excluded.empty()) return forms_.number();
  try {
    TextAutomaton texts = decimal_texts(set);
    for (const Decimal& value : excluded) {
      texts = intersection(
          texts, complement(decimal_texts({DecimalBound{value, false}, DecimalBound{value, false}, {}, false})));
    }
    if (texts.empty()) return std::nullopt;
    return forms_.number(texts);
  } catch (const Error& error) {
    if (last == nullptr || !error.place().empty()) throw;
    document_.fail(last->part, *last->value, error.sentence(), error.hint(), error.code());
  }
}

GrammarBuilder::Rule add_json_schema(GrammarBuilder& builder, std::string_view text, const std::string& place) {
  return JsonSchemaCompiler(builder, text, place).run();
}

Grammar Grammar::from_json_schema(std::string_view text, const std::string& place) {
  GrammarBuilder builder(place);
  const GrammarBuilder::Rule root = add_json_schema(builder, text, place);
  return builder.finish(root, GrammarBuilder::Endless::dropped);
}

}  // namespace weft
