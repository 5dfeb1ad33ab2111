#include <algorithm>

#include "grammar/json_schema_check.h"
#include "grammar/json_schema_compiler.h"

namespace weft {

using Expr = GrammarBuilder::Expr;
using Type = JsonTree::Type;

namespace {

constexpr size_t kMaxCountedStates = 1 << 12, kMaxUniqueValues = 10;
constexpr uint32_t kUnbounded = GrammarBuilder::kUnbounded;

bool has_false(const SchemaTerms& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const SchemaTerm& term) {
    return !term.negated && term.part.tree->is(Type::boolean) && term.part.tree->text == "false";
  });
}

}  // namespace

// The numbers of elements and their schemas; nothing if there is no such array.
std::optional<JsonSchemaCompiler::Arrays> JsonSchemaCompiler::sizes(const SchemaBranch& branch) {
  Arrays arrays;
  size_t prefix = 0;
  const SchemaCondition* least_condition = nullptr;
  for (const SchemaCondition& condition : branch.conditions) {
    if (condition.key == "minItems" || condition.key == "maxItems") {
      const uint64_t count = *document_.find_count(condition.part, condition.key);
      const bool least = (condition.key == "minItems") != condition.negated;
      if (condition.negated && condition.key == "minItems" && count == 0) return std::nullopt;
      if (least) {
        least_condition = &condition;
        arrays.least = std::max(arrays.least, condition.negated ? count + 1 : count);
      } else {
        arrays.most = std::min(arrays.most, condition.negated ? count - 1 : count);
      }
    } else if (condition.key == "items" && !condition.negated) {
      prefix = std::max(prefix, document_.prefix(condition.part));
    }
  }
  if (arrays.least > GrammarBuilder::kMaxRepeat) {
    fail(least_condition->part, *least_condition->value,
         "'minItems' is more than " + std::to_string(GrammarBuilder::kMaxRepeat));
  }
  for (size_t i = 0; i <= prefix; ++i) {
    SchemaTerms terms;
    for (const SchemaCondition& condition : branch.conditions) {
      if (condition.key != "items" || condition.negated) continue;
      if (const auto schema = document_.item(condition.part, i < prefix ? i : SIZE_MAX))
        terms.push_back({*schema, false});
    }
    if (has_false(terms)) {
      arrays.most = std::min<uint64_t>(arrays.most, i);
      break;
    }
    if (i < prefix) {
      arrays.prefix.push_back(std::move(terms));
    } else {
      arrays.rest = std::move(terms);
    }
  }
  if (arrays.least > arrays.most) return std::nullopt;
  if (arrays.most != UINT32_MAX) arrays.most = std::min<uint64_t>(arrays.most, GrammarBuilder::kMaxRepeat);
  return arrays;
}

std::vector<JsonSchemaCompiler::Count> JsonSchemaCompiler::counts(const SchemaBranch& branch) {
  std::vector<Count> counts;
  for (const SchemaCondition& condition : branch.conditions) {
    const Part& part = condition.part;
    if (condition.key == "contains") {
      const auto least = document_.find_count(part, "minContains"), most = document_.find_count(part, "maxContains");
      const SchemaTerms terms = {{part.at("contains"), false}};
      if (!condition.negated) {
        counts.push_back({terms, least.value_or(1), most, 0, SIZE_MAX, &condition});
      } else if (!least && !most) {
        counts.push_back({terms, 0, 0, 0, SIZE_MAX, &condition});
      } else {
        refuse(condition);
      }
    } else if (condition.key == "item") {
      const bool one = !condition.name.empty();  // of prefixItems
      counts.push_back({{{part, true}}, 1, {}, condition.index, one ? condition.index + 1 : SIZE_MAX, &condition});
    } else if (condition.negated && JsonSchemaDocument::types_of_keyword(condition.key) == kJsonArray &&
               condition.key != "minItems" && condition.key != "maxItems") {
      refuse(condition);
    }
  }
  return counts;
}

std::optional<Expr> JsonSchemaCompiler::array(const SchemaBranch& branch) {
  const auto arrays = sizes(branch);
  if (!arrays) return std::nullopt;
  const std::vector<Count> counts = this->counts(branch);
  std::optional<Expr> inside;
  const auto unique = std::find_if(branch.conditions.begin(), branch.conditions.end(),
                                   [](const SchemaCondition& c) { return c.key == "uniqueItems"; });
  if (unique != branch.conditions.end() && arrays->most > 1) {
    if (!counts.empty()) refuse(*unique, "beside 'contains'");
    inside = unique_elements(*arrays, *unique);
  } else if (counts.empty()) {
    inside = elements(*arrays);
  } else {
    inside = counted_elements(*arrays, counts);
  }
  return inside ? std::optional(list(*inside, "[", "]")) : std::nullopt;
}

Expr JsonSchemaCompiler::elements(const Arrays& arrays) {
  const auto least = static_cast<uint32_t>(arrays.least), most = static_cast<uint32_t>(arrays.most);
  const auto after = [&](Expr item) { return builder_.sequence({forms_.comma(), item}); };
  const auto count = static_cast<uint32_t>(arrays.prefix.size());
  std::vector<Expr> prefix;
  for (const SchemaTerms& terms : arrays.prefix) prefix.push_back(values(terms));
  // Elements that may follow `begun` elements that stand before it.
  const uint32_t begun = std::max(1u, count);
  Expr tail = builder_.empty(), other = 0;
  if (most > count) other = values(arrays.rest);
  if (most > begun) {
    const uint32_t still = least > begun ? least - begun : 0;
    tail = builder_.repeat(after(other), still, most == kUnbounded ? kUnbounded : most - begun);
  }
  for (uint32_t i = std::min(count, most); i-- > 1;) {
    const Expr longer = builder_.sequence({after(prefix[i]), tail});
    tail = builder_.shared("elements", document_.place(), least > i ? longer : builder_.optional(longer));
  }
  if (most == 0) return builder_.empty();
  const Expr some = builder_.sequence({count > 0 ? prefix[0] : other, tail});
  return least > 0 ? some : builder_.optional(some);
}

// Elements with `contains` and similar keywords: an element is counted, or need not be. If their number has a limit,
// elements that are not counted do not satisfy the keyword.
std::optional<Expr> JsonSchemaCompiler::counted_elements(const Arrays& arrays, const std::vector<Count>& counts) {
  size_t last = std::max<size_t>({1, arrays.prefix.size(), arrays.least});  // places beyond are alike
  if (arrays.most != UINT32_MAX) last = std::max<size_t>(last, arrays.most);
  for (const Count& count : counts) last = std::max(last, count.to == SIZE_MAX ? count.from : count.to);
  using State = std::vector<size_t>;  // the place, and how many elements were counted, for each
  std::map<State, GrammarBuilder::Rule> rules;
  std::vector<State> order;
  const auto rule = [&](const State& state) {
    const auto [slot, is_new] = rules.try_emplace(state, 0);
    if (is_new) {
      slot->second = builder_.declare("elements");
      order.push_back(state);
      if (order.size() > kMaxCountedStates || counts.size() > 4) refuse(*counts[0].condition, "with so many elements");
    }
    return slot->second;
  };
  const GrammarBuilder::Rule first = rule(State(counts.size() + 1));
  for (size_t i = 0; i < order.size(); ++i) {
    const State state = order[i];
    const size_t place = state[0];
    std::vector<Expr> options;
    bool may_end = place >= arrays.least;
    for (size_t k = 0; k < counts.size(); ++k) may_end = may_end && state[k + 1] >= counts[k].least;
    if (may_end) options.push_back(builder_.empty());
    const bool full = arrays.most != UINT32_MAX && place >= arrays.most;
    for (size_t chosen = 0; !full && chosen < size_t{1} << counts.size(); ++chosen) {
      SchemaTerms terms = place < arrays.prefix.size() ? arrays.prefix[place] : arrays.rest;
      State next = state;
      next[0] = std::min(place + 1, last);
      bool possible = true;
      for (size_t k = 0; k < counts.size(); ++k) {
        const Count& count = counts[k];
        const bool in = chosen >> k & 1, speaks = place >= count.from && place < count.to;
        const size_t cap = count.most ? *count.most : count.least;
        if (in && (!speaks || state[k + 1] >= cap)) possible = false;
        if (in) {
          ++next[k + 1];
          terms.insert(terms.end(), count.terms.begin(), count.terms.end());
        } else if (count.most && speaks) {
          for (const SchemaTerm& term : count.terms) terms.push_back({term.part, !term.negated});
        }
      }
      if (!possible) continue;
      Expr item = values(terms);
      if (place > 0) item = builder_.sequence({forms_.comma(), item});
      options.push_back(builder_.sequence({item, builder_.call(rule(next))}));
    }
    builder_.define(rules.at(state), document_.place_of(*counts[0].condition->value),
                    builder_.choice(std::move(options)));
  }
  return builder_.call(first);
}

// Different elements out of a few listed values: the elements so far are a set of them.
std::optional<Expr> JsonSchemaCompiler::unique_elements(const Arrays& arrays, const SchemaCondition& condition) {
  const auto listed = all_values(arrays.rest);
  if (!arrays.prefix.empty() || !listed)
    refuse(condition, "a grammar cannot compare elements unless their values are listed");
  std::vector<const JsonTree*> values;
  for (const JsonTree* value : *listed) {
    const auto same = [&](const JsonTree* other) { return same_value(*value, *other); };
    if (std::none_of(values.begin(), values.end(), same)) values.push_back(value);
  }
  if (values.size() > kMaxUniqueValues)
    refuse(condition, "of more than " + std::to_string(kMaxUniqueValues) + " values");
  if (arrays.least > values.size()) return std::nullopt;
  std::vector<Expr> tails(size_t{1} << values.size());  // by the set of values that were written
  for (size_t set = tails.size(); set-- > 0;) {
    const auto written = static_cast<size_t>(__builtin_popcountll(set));
    std::vector<Expr> options;
    if (written >= arrays.least) options.push_back(builder_.empty());
    for (size_t i = 0; i < values.size() && written < arrays.most; ++i) {
      if (set >> i & 1) continue;
      const Expr value = forms_.exactly(*values[i]);
      options.push_back(builder_.sequence(
          {set == 0 ? value : builder_.sequence({forms_.comma(), value}), tails[set | size_t{1} << i]}));
    }
    tails[set] = builder_.shared("elements", document_.place_of(*condition.value), builder_.choice(std::move(options)));
  }
  return tails[0];
}

}  // namespace weft
