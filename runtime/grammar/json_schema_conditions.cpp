#include "grammar/json_schema_conditions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/wanted.h"

namespace weft {
namespace {

using Part = JsonSchemaPart;
using Type = JsonTree::Type;

constexpr size_t kMaxBranches = 512, kMaxSteps = 1 << 14;
constexpr size_t kMaxOpenParts = 1 << 18;  // of all open branches: some 30 MB

// A branch before its choices are made.
struct Open {
  struct Alternative;
  using Choice = std::vector<Alternative>;
  struct Alternative {
    SchemaTerms terms;
    std::vector<SchemaCondition> conditions;
    uint32_t types = kJsonAny;
  };

  SchemaBranch branch;
  uint32_t spoken = 0;  // types that positive keywords speak of
  bool typed = false;   // by a positive `type`
  SchemaTerms waiting;
  std::vector<Choice> choices;
  std::set<std::pair<const JsonTree*, bool>> seen;

  size_t parts() const {
    size_t count = 1 + branch.conditions.size() + waiting.size() + seen.size();
    for (const Choice& choice : choices)
      for (const Alternative& one : choice) count += 1 + one.terms.size() + one.conditions.size();
    return count;
  }
};
using Alternative = Open::Alternative;

class Expansion {
 public:
  explicit Expansion(const JsonSchemaDocument& document) : document_(document) {}

  std::vector<SchemaBranch> run(const SchemaTerms& terms) {
    Open first;
    first.waiting.assign(terms.rbegin(), terms.rend());
    std::vector<Open> open;
    open.push_back(std::move(first));
    std::vector<SchemaBranch> branches;
    for (size_t steps = 0; !open.empty(); ++steps) {
      check_wanted();
      Open now = std::move(open.back());
      open.pop_back();
      open_parts_ -= std::min(open_parts_, now.parts());  // the first one is not counted
      while (!now.waiting.empty() && now.branch.types != 0) {
        const SchemaTerm term = std::move(now.waiting.back());
        now.waiting.pop_back();
        if (now.seen.emplace(term.part.tree, term.negated).second)
          (term.negated ? negate(term.part, now) : add(term.part, now));
      }
      if (now.branch.types == 0 || contradicts(now)) continue;
      if (now.choices.empty()) {
        if (!now.typed && now.spoken != 0) now.branch.types &= now.spoken;
        if (now.branch.types != 0) branches.push_back(std::move(now.branch));
      } else {
        choose(now, open, terms[0].part);
      }
      if (branches.size() > kMaxBranches || steps > kMaxSteps) refuse(terms[0].part);
    }
    return branches;
  }

 private:
  [[noreturn]] void refuse(const Part& whole) const {
    document_.fail(whole, *whole.tree, "its alternatives multiply to more than " + std::to_string(kMaxBranches), {},
                   Code::unsupported);
  }

  // Opens a branch for each alternative of the smallest choice.
  void choose(Open& now, std::vector<Open>& open, const Part& whole) {
    const auto smallest = std::min_element(now.choices.begin(), now.choices.end(),
                                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const Open::Choice choice = std::move(*smallest);
    now.choices.erase(smallest);
    for (size_t i = choice.size(); i-- > 0;) {
      Open& next = open.emplace_back(i > 0 ? Open(now) : std::move(now));
      next.branch.types &= choice[i].types;
      next.branch.conditions.insert(next.branch.conditions.end(), choice[i].conditions.begin(),
                                    choice[i].conditions.end());
      next.waiting.assign(choice[i].terms.rbegin(), choice[i].terms.rend());
      open_parts_ += next.parts();
      if (open_parts_ > kMaxOpenParts) refuse(whole);
    }
  }

  // A property's `const` and `enum` decide about most combinations of `if` and `oneOf` early.
  bool contradicts(const Open& now) const {
    const bool narrowed = !now.typed && now.spoken != 0;
    if ((now.branch.types & (narrowed ? now.spoken : kJsonAny)) != kJsonObject) return false;
    const auto& conditions = now.branch.conditions;
    const auto has = [&](std::string_view key, const std::string& name) {
      return std::any_of(conditions.begin(), conditions.end(),
                         [&](const SchemaCondition& c) { return c.key == key && c.name == name; });
    };
    for (const SchemaCondition& condition : conditions) {
      if (condition.key == "absent" && (has("required", condition.name) || has("property", condition.name)))
        return true;
      const bool needed = condition.key == "required" || condition.key == "property";
      if (needed && !has_value(conditions, condition.name)) return true;
    }
    return false;
  }

  // False if the property's scalar values are listed, and none is in all lists and in no negated one.
  bool has_value(const std::vector<SchemaCondition>& conditions, const std::string& name) const {
    std::optional<std::set<std::string>> allowed;
    for (const SchemaCondition& c : conditions) {
      if (c.key != "properties" || c.part.tree->find("properties") == nullptr) continue;
      const Part properties = c.part.at("properties");
      if (properties.tree->find(name) == nullptr) continue;
      const auto values = document_.values(properties.at(name));
      if (!values) continue;
      if (!allowed) {
        allowed = values;
        continue;
      }
      std::erase_if(*allowed, [&](const std::string& value) { return !values->contains(value); });
    }
    if (!allowed) return true;
    for (const SchemaCondition& c : conditions) {
      if (c.key != "property" || c.name != name || !document_.only_lists(c.part)) continue;
      const auto values = document_.values(c.part);
      if (values) std::erase_if(*allowed, [&](const std::string& value) { return values->contains(value); });
    }
    return !allowed->empty();
  }

  SchemaTerm term(const Part& part, bool negated = false) const { return {part, negated}; }
  SchemaTerms terms(const Part& part, std::string_view key, bool negated) const {
    SchemaTerms made;
    const size_t count = document_.list(part, key).items.size();
    for (size_t i = 0; i < count; ++i) made.push_back({part.at(key, i), negated});
    return made;
  }

  // ---- What a value has to satisfy ----

  void add(const Part& part, Open& now) const {
    if (part.tree->is(Type::boolean)) {
      if (part.tree->text == "false") now.branch.types = 0;
      return;
    }
    document_.check_keywords(part);
    bool has_object = false, has_array = false;
    const auto own = static_cast<std::ptrdiff_t>(now.waiting.size());
    for (const auto& [key, value] : part.tree->members) {
      if (JsonSchemaDocument::is_annotation(key)) continue;
      now.spoken |= document_.types_of_keyword(key);
      const bool object = key == "properties" || key == "patternProperties" || key == "additionalProperties";
      const bool array = key == "items" || key == "prefixItems" || key == "additionalItems";
      if (object || array) {
        // One condition for those that depend on each other.
        bool& has = object ? has_object : has_array;
        if (!has) now.branch.conditions.push_back({object ? "properties" : "items", part, part.tree, false, {}, 0});
        has = true;
      } else if (key == "type") {
        now.branch.types &= document_.types(part);
        now.typed = true;
      } else if (key == "required") {
        for (const std::string& name : document_.names(part, key)) add_name("required", name, part, value, now);
      } else if (!add_choice(part, key, value, now)) {
        now.typed = now.typed || key == "const" || key == "enum";
        now.branch.conditions.push_back({known(key), part, &value, false, {}, 0});
      }
    }
    std::reverse(now.waiting.begin() + own, now.waiting.end());  // the last is taken first
  }

  // A keyword's name that lives on.
  static std::string_view known(std::string_view key) { return JsonSchemaDocument::keyword_name(key); }

  static void add_name(std::string_view key, const std::string& name, const Part& part, const JsonTree& value,
                       Open& now) {
    now.branch.conditions.push_back({key, part, &value, false, name, 0});
  }

  // Keywords that lead to other schemas of the same value.
  bool add_choice(const Part& part, const std::string& key, const JsonTree& value, Open& now) const {
    if (key == "$ref") {
      document_.check_chain(part);
      now.waiting.push_back({document_.resolve(part), false});
    } else if (key == "not") {
      now.waiting.push_back({part.at(key), true});
    } else if (key == "allOf") {
      for (SchemaTerm& one : terms(part, key, false)) now.waiting.push_back(std::move(one));
    } else if (key == "anyOf") {
      Open::Choice choice;
      for (SchemaTerm& one : terms(part, key, false)) choice.push_back({{std::move(one)}, {}, kJsonAny});
      now.choices.push_back(std::move(choice));
    } else if (key == "oneOf") {
      add_one_of(part, now);
    } else if (key == "if") {
      const auto branch = [&](bool holds, const char* then) {
        Alternative made{{term(part.at("if"), !holds)}, {}, kJsonAny};
        if (part.tree->find(then) != nullptr) made.terms.push_back(term(part.at(then)));
        return made;
      };
      if (part.tree->find("then") != nullptr || part.tree->find("else") != nullptr)
        now.choices.push_back({branch(true, "then"), branch(false, "else")});
    } else if (key == "dependentRequired" || key == "dependentSchemas" || key == "dependencies") {
      for (const auto& [name, needed] : value.members) add_dependency(part, key, name, needed, now);
    } else {
      return key == "then" || key == "else" || key == "minContains" || key == "maxContains" ||
             (key == "uniqueItems" && value.text == "false");
    }
    return true;
  }

  void add_one_of(const Part& part, Open& now) const {
    const SchemaTerms options = terms(part, "oneOf", false);
    constexpr size_t kMaxExclusive = 64;  // each is compared with each
    if (options.size() > kMaxExclusive) {
      document_.fail(part, *part.tree->find("oneOf"),
                     "'oneOf' has " + std::to_string(options.size()) + " alternatives; Weft reads at most " +
                         std::to_string(kMaxExclusive));
    }
    Open::Choice choice;
    for (size_t i = 0; i < options.size(); ++i) {
      Alternative made{{options[i]}, {}, kJsonAny};
      for (size_t j = 0; j < options.size(); ++j) {
        if (i != j && !document_.exclusive(options[i].part, options[j].part))
          made.terms.push_back({options[j].part, true});
      }
      choice.push_back(std::move(made));
    }
    now.choices.push_back(std::move(choice));
  }

  // Without the property, or with it and what it needs.
  void add_dependency(const Part& part, const std::string& key, const std::string& name, const JsonTree& needed,
                      Open& now) const {
    Alternative without{{}, {{"absent", part, &needed, false, name, 0}}, kJsonAny};
    Alternative with{{}, {{"required", part, &needed, false, name, 0}}, kJsonAny};
    if (needed.is(Type::array)) {
      for (const std::string& other : document_.names(part.at(key), name))
        with.conditions.push_back({"required", part, &needed, false, other, 0});
    } else {
      with.terms.push_back(term(part.at(key, name)));
    }
    with.types = without.types = kJsonAny;
    now.spoken |= kJsonObject;
    now.choices.push_back({std::move(without), std::move(with)});
  }

  // ---- What it has not to satisfy ----

  void negate(const Part& part, Open& now) const {
    if (part.tree->is(Type::boolean)) {
      if (part.tree->text == "true") now.branch.types = 0;
      return;
    }
    document_.check_keywords(part);
    Open::Choice choice;
    for (const auto& [key, value] : part.tree->members) {
      if (!JsonSchemaDocument::is_annotation(key)) fail_keyword(part, key, value, choice);
    }
    if (choice.empty()) now.branch.types = 0;
    now.choices.push_back(std::move(choice));
  }

  // Adds the ways in which a value can fail one keyword.
  void fail_keyword(const Part& part, const std::string& key, const JsonTree& value, Open::Choice& choice) const {
    const auto add_terms = [&](SchemaTerms terms) { choice.push_back({std::move(terms), {}, kJsonAny}); };
    if (key == "$ref") {
      add_terms({{document_.resolve(part), true}});
    } else if (key == "not") {
      add_terms({{part.at(key), false}});
    } else if (key == "type") {
      choice.push_back({{}, {}, kJsonAny & ~document_.types(part)});
    } else if (key == "allOf") {
      for (SchemaTerm& one : terms(part, key, true)) add_terms({std::move(one)});
    } else if (key == "anyOf" || key == "oneOf") {
      add_terms(terms(part, key, true));
      const SchemaTerms options = terms(part, key, false);
      for (size_t i = 0; key == "oneOf" && i < options.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (!document_.exclusive(options[i].part, options[j].part)) add_terms({options[i], options[j]});
        }
      }
    } else if (key == "if") {
      if (part.tree->find("then") != nullptr) add_terms({{part.at(key), false}, {part.at("then"), true}});
      if (part.tree->find("else") != nullptr) add_terms({{part.at(key), true}, {part.at("else"), true}});
    } else if (key == "properties") {
      for (const JsonTree::Member& member : value.members) {
        const Part one = part.at(key, member.key);
        choice.push_back({{}, {{"property", one, one.tree, true, member.key, 0}}, kJsonObject});
      }
    } else if (key == "required") {
      for (const std::string& name : document_.names(part, key))
        choice.push_back({{}, {{"absent", part, &value, false, name, 0}}, kJsonObject});
    } else if (key == "prefixItems" || (key == "items" && value.is(Type::array))) {
      for (size_t i = 0; i < value.items.size(); ++i)
        choice.push_back({{}, {{"item", part.at(key, i), &value.items[i], true, "one", i}}, kJsonArray});
    } else if (key == "items") {
      const JsonTree* prefix = part.tree->find("prefixItems");
      choice.push_back(
          {{}, {{"item", part.at(key), &value, true, {}, prefix == nullptr ? 0 : prefix->items.size()}}, kJsonArray});
    } else if (key != "then" && key != "else" && key != "minContains" && key != "maxContains" &&
               !(key == "uniqueItems" && value.text == "false")) {
      const uint32_t types = document_.types_of_keyword(key);
      choice.push_back({{}, {{known(key), part, &value, true, {}, 0}}, types == 0 ? uint32_t{kJsonAny} : types});
    }
  }

  const JsonSchemaDocument& document_;
  size_t open_parts_ = 0;
};

}  // namespace

std::vector<SchemaBranch> schema_branches(const JsonSchemaDocument& document, const SchemaTerms& terms) {
  return Expansion(document).run(terms);
}

}  // namespace weft
