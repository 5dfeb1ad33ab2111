#include <algorithm>

#include "base/utf8.h"
#include "grammar/json_schema_check.h"
#include "grammar/json_schema_compiler.h"

namespace weft {

using Expr = GrammarBuilder::Expr;
using Type = JsonTree::Type;

namespace {

constexpr size_t kMaxPatterns = 8, kMaxCounted = 1 << 14;

bool says(const SchemaCondition& condition, std::string_view key) { return condition.key == key && !condition.negated; }

JsonTree name_tree(const std::string& name, uint32_t line) { return {Type::string, line, name, {}, {}}; }

}  // namespace

// Demands of a property's value: of each schema that speaks of it, and of the negated ones.
SchemaTerms JsonSchemaCompiler::property_terms(const SchemaBranch& branch, const std::string& name) {
  SchemaTerms terms;
  for (const SchemaCondition& condition : branch.conditions) {
    if (says(condition, "properties")) {
      for (const Part& schema : texts_.property(condition.part, name)) terms.push_back({schema, false});
    } else if (condition.key == "property" && condition.name == name) {
      terms.push_back({condition.part, true});
    }
  }
  return terms;
}

// False if there is no such object.
bool JsonSchemaCompiler::list_properties(const SchemaBranch& branch, Objects& objects) {
  std::vector<std::string> names;
  std::set<std::string> known, needed, absent;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const SchemaCondition& condition : branch.conditions) {
    if (!says(condition, "properties")) continue;
    const JsonTree* listed = condition.part.tree->find("properties");
    for (size_t i = 0; listed != nullptr && i < listed->members.size(); ++i) add(listed->members[i].key);
  }
  for (const SchemaCondition& condition : branch.conditions) {
    if (condition.key == "required" || condition.key == "property") {
      add(condition.name);
      needed.insert(condition.name);
    } else if (condition.key == "absent") {
      add(condition.name);
      absent.insert(condition.name);
    }
  }
  for (const std::string& name : names) {
    SchemaTerms terms = property_terms(branch, name);
    bool possible = !absent.contains(name);
    for (const SchemaCondition& condition : branch.conditions) {
      if (!says(condition, "propertyNames")) continue;
      const JsonTree tree = name_tree(name, condition.value->line);
      possible = possible && satisfies(tree, {{condition.part.at("propertyNames"), false}}, document_, texts_);
    }
    for (const SchemaTerm& term : terms)
      possible = possible && (term.negated || !term.part.tree->is(Type::boolean) || term.part.tree->text == "true");
    if (!possible) {
      if (needed.contains(name)) return false;
      continue;
    }
    objects.listed.push_back({pair(builder_.literal(json_string(name)), values(terms)), needed.contains(name)});
  }
  add_others(branch, names, objects);
  return true;
}

// Properties that are not listed. Each set of patterns that a name can match, and those of no pattern, have values of
// their own.
void JsonSchemaCompiler::add_others(const SchemaBranch& branch, const std::vector<std::string>& names,
                                    Objects& objects) {
  bool listed = false, any = false;
  struct Pattern {
    const SchemaCondition* condition;
    const JsonTree::Member* member;
  };
  std::vector<Pattern> patterns;
  for (const SchemaCondition& condition : branch.conditions) {
    if (!says(condition, "properties")) continue;
    const JsonTree* all = condition.part.tree->find("patternProperties");
    for (size_t i = 0; all != nullptr && i < all->members.size(); ++i)
      patterns.push_back({&condition, &all->members[i]});
    const JsonTree* additional = condition.part.tree->find("additionalProperties");
    const bool has_listed = condition.part.tree->find("properties") != nullptr;
    listed = listed || has_listed || all != nullptr;
    any = any || additional != nullptr;
  }
  if (patterns.empty() && listed && !any) return;
  if (patterns.size() > kMaxPatterns) {
    document_.fail(patterns[0].condition->part, *patterns[0].condition->value,
                   "more than " + std::to_string(kMaxPatterns) + " patterns of properties are not supported", {},
                   Code::unsupported);
  }
  TextAutomaton allowed = complement(listed_texts({names.begin(), names.end()}));
  for (const SchemaCondition& condition : branch.conditions) {
    if (!says(condition, "propertyNames")) continue;
    allowed = intersection(allowed, texts_.satisfying(SchemaTerms{{condition.part.at("propertyNames"), false}}));
  }
  std::vector<std::pair<TextAutomaton, std::vector<bool>>> classes = {{std::move(allowed), {}}};
  for (const Pattern& pattern : patterns) {
    const TextAutomaton& matching =
        texts_.matching(pattern.condition->part, pattern.member->value, pattern.member->key, true);
    const TextAutomaton others = complement(matching);
    std::vector<std::pair<TextAutomaton, std::vector<bool>>> finer;
    for (const auto& [texts, matched] : classes) {
      for (const bool in : {true, false}) {
        TextAutomaton both = intersection(texts, in ? matching : others);
        if (both.empty()) continue;
        finer.push_back({std::move(both), matched});
        finer.back().second.push_back(in);
      }
    }
    classes = std::move(finer);
  }
  for (const auto& [texts, matched] : classes) {
    if (texts.empty()) continue;
    const bool none = std::none_of(matched.begin(), matched.end(), [](bool in) { return in; });
    if (none && listed && !any) continue;
    SchemaTerms terms;
    for (const SchemaCondition& condition : branch.conditions) {
      if (!says(condition, "properties")) continue;
      bool own = false;
      for (size_t i = 0; i < patterns.size(); ++i) {
        if (patterns[i].condition != &condition || !matched[i]) continue;
        own = true;
        terms.push_back({condition.part.at("patternProperties", patterns[i].member->key), false});
      }
      if (!own && condition.part.tree->find("additionalProperties") != nullptr)
        terms.push_back({condition.part.at("additionalProperties"), false});
    }
    const auto is_false = [](const SchemaTerm& term) {
      return term.part.tree->is(Type::boolean) && term.part.tree->text == "false";
    };
    if (std::any_of(terms.begin(), terms.end(), is_false)) continue;
    const Expr quote = builder_.literal("\"");
    const Expr name = builder_.automaton(texts, [&](const CodePointSet& set) { return forms_.character(set); });
    const Expr other = pair(builder_.sequence({quote, name, quote}), values(terms));
    objects.others.push_back(builder_.shared("another property", document_.place(), other));
  }
}

std::optional<Expr> JsonSchemaCompiler::object(const SchemaBranch& branch) {
  Objects objects;
  for (const SchemaCondition& condition : branch.conditions) {
    const std::string_view key = condition.key;
    const bool least = key == "minProperties", most = key == "maxProperties";
    if (least || most) {
      const uint32_t count = *document_.find_count(condition.part, key);
      if (condition.negated && least && count == 0) return std::nullopt;
      if (least != condition.negated) {
        const uint32_t own = condition.negated ? count + 1 : count;
        if (own > objects.least) objects.least_condition = &condition;
        objects.least = std::max(objects.least, own);
      } else {
        objects.most = std::min(objects.most, condition.negated ? count - 1 : count);
      }
    } else if (condition.negated && JsonSchemaDocument::types_of_keyword(key) == kJsonObject) {
      refuse(condition);
    }
  }
  if (objects.least > objects.most || !list_properties(branch, objects)) return std::nullopt;
  const auto inside =
      objects.least == 0 && objects.most == UINT32_MAX ? pairs(objects) : counted_pairs(objects, branch);
  return inside ? std::optional(list(*inside, "{", "}")) : std::nullopt;
}

std::optional<Expr> JsonSchemaCompiler::pairs(const Objects& objects) {
  const auto& properties = objects.listed;
  const Expr other = objects.others.empty() ? 0 : builder_.choice(objects.others);
  const bool others = !objects.others.empty();
  // Properties that may follow once one was written, from the last on: each of the others with a comma, or left out.
  std::vector<Expr> tails(properties.size() + 1);
  tails.back() = others ? builder_.repeat(builder_.sequence({forms_.comma(), other}), 0, GrammarBuilder::kUnbounded)
                        : builder_.empty();
  for (size_t i = properties.size(); i-- > 1;) {
    const Expr own = builder_.sequence({forms_.comma(), properties[i].pair});
    const Expr tail = builder_.sequence({properties[i].required ? own : builder_.optional(own), tails[i + 1]});
    tails[i] = builder_.shared("properties", document_.place(), tail);
  }
  // The first property written is the first that is required, or one before it.
  std::vector<Expr> options;
  bool may_be_empty = true;
  for (size_t i = 0; i < properties.size() && may_be_empty; ++i) {
    options.push_back(builder_.sequence({properties[i].pair, tails[i + 1]}));
    may_be_empty = !properties[i].required;
  }
  if (may_be_empty && others) options.push_back(builder_.sequence({other, tails.back()}));
  if (may_be_empty) options.push_back(builder_.empty());
  return builder_.choice(std::move(options));
}

// With minProperties or maxProperties. A grammar cannot see that two names are the same, so properties that are not
// listed count once towards the least number.
std::optional<Expr> JsonSchemaCompiler::counted_pairs(const Objects& objects, const SchemaBranch& branch) {
  const auto& properties = objects.listed;
  const size_t count = properties.size();
  const bool others = !objects.others.empty();
  const auto required = static_cast<uint32_t>(
      std::count_if(properties.begin(), properties.end(), [](const Property& p) { return p.required; }));
  if (others && objects.least > required + 1) {
    refuse(*objects.least_condition, "a grammar cannot see that names of properties that are not listed differ");
  }
  if (!others && objects.least > count) return std::nullopt;
  const uint32_t most = std::min<uint32_t>(objects.most, others ? objects.most : static_cast<uint32_t>(count));
  const uint32_t cap = most == UINT32_MAX ? objects.least : most;  // written properties beyond which none counts
  if ((count + 1) * (size_t{cap} + 1) > kMaxCounted) {
    document_.fail(branch.conditions[0].part, *branch.conditions[0].value, "so many properties cannot be counted", {},
                   Code::unsupported);
  }
  const auto comma = [&](uint32_t written, Expr item) {
    return written == 0 ? item : builder_.sequence({forms_.comma(), item});
  };
  // By the next property and the number written.
  std::vector<std::vector<std::optional<Expr>>> tails(count + 1, std::vector<std::optional<Expr>>(cap + 1));
  for (uint32_t written = 0; written <= cap; ++written) {
    const uint32_t needed = objects.least > written ? objects.least - written : 0;
    const uint32_t still = most == UINT32_MAX ? UINT32_MAX : most - written;
    if (needed > (others && still > 0 ? 1u : 0u)) continue;
    if (!others || still == 0) {
      tails[count][written] = builder_.empty();
      continue;
    }
    const Expr other = builder_.choice(objects.others);
    const Expr more =
        builder_.repeat(builder_.sequence({forms_.comma(), other}), 0,
                        still == UINT32_MAX ? UINT32_MAX : std::min(still - 1, GrammarBuilder::kMaxRepeat));
    const Expr some = builder_.sequence({comma(written, other), more});
    tails[count][written] = needed > 0 ? some : builder_.optional(some);
  }
  for (size_t i = count; i-- > 0;) {
    for (uint32_t written = 0; written <= cap; ++written) {
      std::vector<Expr> options;
      const uint32_t after = std::min(written + 1, cap);
      const bool may = most == UINT32_MAX || written < most;
      if (may && tails[i + 1][after])
        options.push_back(builder_.sequence({comma(written, properties[i].pair), *tails[i + 1][after]}));
      if (!properties[i].required && tails[i + 1][written]) options.push_back(*tails[i + 1][written]);
      if (!options.empty())
        tails[i][written] = builder_.shared("properties", document_.place(), builder_.choice(std::move(options)));
    }
  }
  return tails[0][0];
}

}  // namespace weft
