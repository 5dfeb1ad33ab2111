// JSON Schema (https://json-schema.org/draft/2020-12) as a grammar: each text of the grammar is a JSON text that the
// schema accepts.
//
// It need not be the other way round: of the texts a schema accepts, the grammar has those of one form.
// - One space, or none, after ',' and ':'; none elsewhere.
// - Properties in the order of `properties`, any others after them.
// - Without `additionalProperties`, an object that has `properties` gets no others. Where there are others
//   (`additionalProperties`: true or a schema; an object of which nothing is said) their names have no escapes and are
//   none of the listed ones; that no name comes twice is beyond a grammar.
// - Without `type`, the types that the other keywords apply to; any type if there are none.
// - Whole numbers as digits, without a point, although JSON Schema takes 1.0 for one. Numbers with bounds or
//   `multipleOf` without an exponent. Neither has "-0". Their length has no limit but the schema's.
// - Values of `enum` and `const`, and strings with `pattern` or `format`, with the escapes that must be and no others.
//
// Supported: type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// minLength, maxLength, pattern (grammar/regex_grammar.h), format (date, time, date-time, uuid, ipv4), minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf whose alternatives exclude each other by type,
// by their values or by a required property's values, allOf of one schema, and $ref to places in the same file, also
// recursively. `true` and `false` where they make sense, and uniqueItems: false.
//
// Ignored, as annotations: title, description, default, examples, deprecated, readOnly, writeOnly, contentMediaType,
// contentEncoding, $comment, $schema, $defs, definitions, and the outermost $id. Everything else, an unknown keyword
// and an unknown format too, is refused by name: ignoring it would accept what its author meant to exclude.
//
// Repetition counts above GrammarBuilder::kMaxRepeat are lowered to it as a maximum and refused as a minimum.
#include <algorithm>
#include <map>
#include <set>

#include "base/utf8.h"
#include "grammar/decimal_ranges.h"
#include "grammar/grammar.h"
#include "grammar/grammar_builder.h"
#include "grammar/json_forms.h"
#include "grammar/json_schema_document.h"
#include "grammar/regex_grammar.h"

namespace weft {
namespace {

using Expr = GrammarBuilder::Expr;
using Part = JsonSchemaPart;
using Type = JsonTree::Type;

constexpr uint32_t kUnbounded = GrammarBuilder::kUnbounded;

// The patterns of RFC 3339 (appendix A: years 0001 to 9999, leap years as they are, no leap seconds), RFC 4122 and RFC
// 2673; nothing for a format that is not supported.
std::optional<std::string> format_pattern(std::string_view name) {
  const std::string fours = "(?:0[48]|[2468][048]|[13579][26])";  // multiples of four, from 04 to 96
  const std::string date =
      R"((?:(?:\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})-)"
      R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])))"
      R"(|(?:\d\d)" +
      fours + "|" + fours + "00)-02-29)";
  const std::string hour = R"((?:[01]\d|2[0-3]):[0-5]\d)";
  const std::string time = hour + R"(:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-])" + hour + ")";
  const std::string octet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  if (name == "date") return date;
  if (name == "time") return time;
  if (name == "date-time") return date + "T" + time;
  if (name == "uuid") return "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}";
  if (name == "ipv4") return octet + R"((?:\.)" + octet + "){3}";
  return std::nullopt;
}

class Compiler {
 public:
  Compiler(std::string_view text, const std::string& place)
      : document_(text, place), builder_(place), forms_(builder_, place) {}

  Grammar run() {
    const GrammarBuilder::Rule root = rule(document_.root());
    while (!pending_.empty()) {  // schemas that references lead to
      const auto [id, part] = std::move(pending_.back());
      pending_.pop_back();
      builder_.define(id, document_.place_of(*part.tree), schema(part));
    }
    return builder_.finish(root);
  }

 private:
  [[noreturn]] void fail(const Part& part, const JsonTree& tree, const std::string& sentence,
                         const std::string& hint = {}) const {
    document_.fail(part, tree, sentence, hint);
  }
  static bool is_false(const Part& part) { return part.tree->is(Type::boolean) && part.tree->text == "false"; }

  GrammarBuilder::Rule rule(const Part& part);
  Expr shared(const std::string& name, const JsonTree& tree, Expr expr) {
    return builder_.shared(name, document_.place_of(tree), expr);
  }
  // A schema's expression as a rule of its own: for what is used at more than one place.
  Expr shared_schema(const Part& part) { return shared(part.pointer, *part.tree, schema(part)); }

  Expr schema(const Part& part);
  Expr by_type(const Part& part);
  Expr alternatives(const Part& part, std::string_view keyword);
  Expr listed_values(const Part& part, std::string_view keyword);
  Expr string(const Part& part);
  Expr pattern(const Part& part, const JsonTree& tree, const std::string& text, bool search);
  DecimalSet numbers(const Part& part, bool whole) const;
  Expr number(const Part& part, bool whole);

  struct Property {
    Expr pair;  // "name": value
    bool required = false;
  };
  Expr pair(Expr name, Expr value) { return builder_.sequence({name, forms_.colon(), value}); }
  std::vector<Property> listed_properties(const Part& part);
  std::optional<Expr> other_property(const Part& part);
  std::set<std::string> required(const Part& part) const;
  Expr object(const Part& part);

  std::pair<uint32_t, uint32_t> item_counts(const Part& part, size_t prefix, bool others) const;
  Expr array(const Part& part);

  JsonSchemaDocument document_;
  GrammarBuilder builder_;
  JsonForms forms_;
  std::map<const JsonTree*, GrammarBuilder::Rule> rules_;  // of what references lead to
  std::vector<std::pair<GrammarBuilder::Rule, Part>> pending_;
};

GrammarBuilder::Rule Compiler::rule(const Part& part) {
  const auto [slot, is_new] = rules_.try_emplace(part.tree, 0);
  if (is_new) {
    slot->second = builder_.declare(part.pointer);
    pending_.push_back({slot->second, part});
  }
  return slot->second;
}

Expr Compiler::schema(const Part& part) {
  const JsonTree& tree = *part.tree;
  if (is_false(part)) fail(part, tree, "nothing matches the schema 'false'");
  if (tree.is(Type::boolean)) return forms_.value();
  document_.check_keywords(part);
  if (tree.find("$ref") != nullptr) {
    document_.check_alone(part, "$ref");
    return builder_.call(rule(document_.resolve(part)));
  }
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    if (document_.find(part, keyword, Type::array) != nullptr) return alternatives(part, keyword);
  }
  for (const char* keyword : {"const", "enum"}) {
    if (tree.find(keyword) != nullptr) return listed_values(part, keyword);
  }
  return by_type(part);
}

Expr Compiler::by_type(const Part& part) {
  const uint32_t types = document_.types(part);
  std::vector<Expr> options;
  if (types & kJsonObject) options.push_back(object(part));
  if (types & kJsonArray) options.push_back(array(part));
  if (types & kJsonString) options.push_back(string(part));
  if (types & kJsonNumber) options.push_back(number(part, (types & kJsonFraction) == 0));
  if (types & kJsonBoolean) options.push_back(forms_.boolean());
  if (types & kJsonNull) options.push_back(forms_.null());
  return builder_.choice(std::move(options));
}

Expr Compiler::alternatives(const Part& part, std::string_view keyword) {
  document_.check_alone(part, keyword);
  const JsonTree& list = document_.list(part, keyword);
  constexpr size_t kMaxExclusive = 64;  // each is compared with each
  if (keyword == "oneOf" && list.items.size() > kMaxExclusive) {
    fail(part, list,
         "'oneOf' has " + std::to_string(list.items.size()) + " alternatives; Weft reads at most " +
             std::to_string(kMaxExclusive));
  }
  if (keyword == "allOf" && list.items.size() > 1) {
    document_.fail(part, list, "keyword 'allOf' with more than one schema is not supported", "write them as one",
                   Code::unsupported);
  }
  std::vector<Expr> options;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Part option = part.at(keyword, i);
    if (is_false(option) && keyword != "allOf") continue;
    options.push_back(schema(option));
    for (size_t j = 0; keyword == "oneOf" && j < i; ++j) {
      if (is_false(part.at(keyword, j)) || document_.exclusive(part.at(keyword, j), option)) continue;
      document_.fail(part, *option.tree,
                     "alternatives " + std::to_string(j) + " and " + std::to_string(i) + " of 'oneOf' may both match",
                     "where that does no harm, write 'anyOf'", Code::unsupported);
    }
  }
  if (options.empty()) fail(part, list, "nothing matches any alternative");
  return builder_.choice(std::move(options));
}

Expr Compiler::listed_values(const Part& part, std::string_view keyword) {
  document_.check_alone(part, keyword, {"type"});
  const uint32_t types = part.tree->find("type") != nullptr ? document_.types(part) : kJsonAny;
  std::vector<Expr> options;
  const auto add = [&](const JsonTree& value) {
    if ((json_type(value) & types) != 0) options.push_back(forms_.exactly(value));
  };
  const JsonTree& values = *part.tree->find(keyword);
  if (keyword == "const") {
    add(values);
  } else {
    document_.find(part, keyword, Type::array);
    for (const JsonTree& value : document_.list(part, keyword).items) add(value);
  }
  if (options.empty()) fail(part, values, "no value of " + in_quotes(keyword) + " is of the schema's 'type'");
  return builder_.choice(std::move(options));
}

// ---- Strings and numbers ----

Expr Compiler::pattern(const Part& part, const JsonTree& tree, const std::string& text, bool search) {
  const RegexStyle style{[&](const CodePointSet& set) { return forms_.character(set); }, search};
  const Expr quote = builder_.literal("\"");
  try {
    return builder_.sequence({quote, add_regex(builder_, text, document_.place_of(tree), style), quote});
  } catch (const Error& error) {
    document_.fail(part, tree, error.sentence(), error.hint(), error.code());
  }
}

Expr Compiler::string(const Part& part) {
  const JsonTree* given = document_.find(part, "pattern", Type::string);
  const JsonTree* format = document_.find(part, "format", Type::string);
  const auto least = document_.find_count(part, "minLength"), most = document_.find_count(part, "maxLength");
  for (const JsonTree* one : {given, format}) {
    if (one == nullptr) continue;
    for (const char* key : {"pattern", "format", "minLength", "maxLength"}) {
      const JsonTree* other = part.tree->find(key);
      if (other == nullptr || other == one) continue;
      document_.fail(
          part, *other,
          "keyword '" + std::string(key) + "' beside '" + (one == given ? "pattern" : "format") + "' is not supported",
          {}, Code::unsupported);
    }
  }
  if (given != nullptr) return pattern(part, *given, given->text, true);
  if (format != nullptr) {
    const auto known = format_pattern(format->text);
    if (!known) {
      document_.fail(part, *format, "format " + in_quotes(format->text) + " is not supported",
                     "without 'format', any string will do", Code::unsupported);
    }
    return pattern(part, *format, *known, false);
  }
  if (!least && !most) return forms_.string();
  if (least.value_or(0) > most.value_or(kUnbounded)) fail(part, *part.tree, "'minLength' is more than 'maxLength'");
  if (least.value_or(0) > GrammarBuilder::kMaxRepeat) {
    fail(part, *part.tree->find("minLength"), "'minLength' is more than " + std::to_string(GrammarBuilder::kMaxRepeat));
  }
  const Expr quote = builder_.literal("\"");
  const uint32_t bound = most ? std::min(*most, GrammarBuilder::kMaxRepeat) : kUnbounded;
  return builder_.sequence({quote, builder_.repeat(forms_.character(), least.value_or(0), bound), quote});
}

// The stricter ones of the bounds.
DecimalSet Compiler::numbers(const Part& part, bool whole) const {
  DecimalSet set{{}, {}, {}, whole};
  for (const auto& [key, exclusive] : {std::pair("minimum", false), std::pair("exclusiveMinimum", true),
                                       std::pair("maximum", false), std::pair("exclusiveMaximum", true)}) {
    const JsonTree* tree = part.tree->find(key);
    if (tree == nullptr) continue;
    if (!tree->is(Type::integer) && !tree->is(Type::number)) {
      fail(part, *tree, in_quotes(key) + " should be a number but is " + type_name(tree->type));
    }
    const DecimalBound bound{parse_decimal(tree->text), exclusive};
    if (std::string_view(key).ends_with("inimum")) {
      set.add_least(bound);
    } else {
      set.add_most(bound);
    }
  }
  if (const JsonTree* divisor = part.tree->find("multipleOf")) {
    const bool is_number = divisor->is(Type::integer) || divisor->is(Type::number);
    const Decimal value = is_number ? parse_decimal(divisor->text) : Decimal();
    if (value.is_zero() || value.negative) {
      fail(part, *divisor,
           "'multipleOf' should be a number above 0 but is " +
               (is_number ? in_quotes(divisor->text) : type_name(divisor->type)));
    }
    set.divisors.push_back({value, false});
  }
  return set;
}

Expr Compiler::number(const Part& part, bool whole) {
  const DecimalSet set = numbers(part, whole);
  if (!whole && !set.least && !set.most && set.divisors.empty()) return forms_.number();
  try {
    const TextAutomaton made = decimal_texts(set);
    if (made.empty()) fail(part, *part.tree, "no number is within the bounds");
    return forms_.number(made);
  } catch (const Error& error) {
    if (!error.place().empty()) throw;
    document_.fail(part, *part.tree, error.sentence(), error.hint(), error.code());
  }
}

// ---- Objects ----

std::set<std::string> Compiler::required(const Part& part) const {
  std::set<std::string> names;
  const JsonTree* list = document_.find(part, "required", Type::array);
  if (list == nullptr) return names;
  for (const JsonTree& name : list->items) {
    if (!name.is(Type::string)) fail(part, name, "'required' should hold names but holds " + type_name(name.type));
    names.insert(name.text);
  }
  return names;
}

// Those of `properties`, then those that are only required.
std::vector<Compiler::Property> Compiler::listed_properties(const Part& part) {
  std::vector<Property> properties;
  std::set<std::string> missing = required(part);
  if (const JsonTree* listed = document_.find(part, "properties", Type::object)) {
    for (const JsonTree::Member& member : listed->members) {
      const Part value{&member.value, part.at("properties", member.key).pointer};
      const bool is_required = missing.erase(member.key) > 0;
      if (is_false(value)) {
        if (is_required)
          fail(part, member.value, "property " + in_quotes(member.key) + " is required, and 'false' excludes it");
        continue;
      }
      const Expr name = builder_.literal(json_string(member.key));
      properties.push_back({shared(value.pointer, member.value, pair(name, schema(value))), is_required});
    }
  }
  if (missing.empty()) return properties;
  const JsonTree* others = part.tree->find("additionalProperties");
  if (others != nullptr && is_false(part.at("additionalProperties"))) {
    fail(part, *part.tree->find("required"),
         "property " + in_quotes(*missing.begin()) +
             " is required, but is not in 'properties', and 'additionalProperties' is false");
  }
  const Expr value = others == nullptr ? forms_.value() : shared_schema(part.at("additionalProperties"));
  for (const std::string& name : missing)
    properties.push_back({pair(builder_.literal(json_string(name)), value), true});
  return properties;
}

// Any property but the listed ones; nothing if there shall be none.
std::optional<Expr> Compiler::other_property(const Part& part) {
  const JsonTree* others = part.tree->find("additionalProperties");
  const JsonTree* listed = part.tree->find("properties");
  if (others == nullptr ? listed != nullptr : is_false(part.at("additionalProperties"))) return std::nullopt;
  const std::set<std::string> required_names = required(part);
  std::vector<std::string> names(required_names.begin(), required_names.end());
  if (listed != nullptr) {
    for (const JsonTree::Member& member : listed->members) names.push_back(member.key);
  }
  const Expr value = others == nullptr ? forms_.value() : schema(part.at("additionalProperties"));
  return shared(part.pointer, *part.tree, pair(names.empty() ? forms_.string() : forms_.other_string(names), value));
}

Expr Compiler::object(const Part& part) {
  const std::vector<Property> properties = listed_properties(part);
  const std::optional<Expr> other = other_property(part);
  const auto more_others = [&] {
    return other ? builder_.repeat(builder_.sequence({forms_.comma(), *other}), 0, kUnbounded) : builder_.empty();
  };
  // What may follow, from the last on, once a property was written: each of the others with a comma, or left out.
  std::vector<Expr> tails(properties.size() + 1);
  tails.back() = more_others();
  for (size_t i = properties.size(); i-- > 1;) {
    const Expr own = builder_.sequence({forms_.comma(), properties[i].pair});
    const Expr tail = builder_.sequence({properties[i].required ? own : builder_.optional(own), tails[i + 1]});
    tails[i] = shared(part.pointer, *part.tree, tail);
  }
  // The first property written is the first that is required, or one before it.
  std::vector<Expr> options;
  bool may_be_empty = true;
  for (size_t i = 0; i < properties.size() && may_be_empty; ++i) {
    options.push_back(builder_.sequence({properties[i].pair, tails[i + 1]}));
    may_be_empty = !properties[i].required;
  }
  if (may_be_empty && other) options.push_back(builder_.sequence({*other, tails.back()}));
  if (may_be_empty) options.push_back(builder_.empty());
  return builder_.sequence({builder_.literal("{"), builder_.choice(std::move(options)), builder_.literal("}")});
}

// ---- Arrays ----

// The least and the most. prefix: how many elements have a schema of their own. others: whether more may follow.
std::pair<uint32_t, uint32_t> Compiler::item_counts(const Part& part, size_t prefix, bool others) const {
  const uint32_t least = document_.find_count(part, "minItems").value_or(0);
  uint32_t most = document_.find_count(part, "maxItems").value_or(kUnbounded);
  if (least > most) fail(part, *part.tree, "'minItems' is more than 'maxItems'");
  if (!others && least > prefix) {
    fail(part, *part.tree,
         "'minItems' is " + std::to_string(least) + ", but at most " + std::to_string(prefix) + " items are possible");
  }
  if (least > GrammarBuilder::kMaxRepeat) {
    fail(part, *part.tree->find("minItems"), "'minItems' is more than " + std::to_string(GrammarBuilder::kMaxRepeat));
  }
  if (!others) most = std::min(most, static_cast<uint32_t>(prefix));
  if (most != kUnbounded) most = std::min(most, GrammarBuilder::kMaxRepeat);
  return {least, most};
}

Expr Compiler::array(const Part& part) {
  std::vector<Expr> prefix;
  const JsonTree* items = part.tree->find("items");
  bool others = items == nullptr || !is_false(part.at("items"));
  if (document_.find(part, "prefixItems", Type::array) != nullptr) {
    const size_t count = document_.list(part, "prefixItems").items.size();
    for (size_t i = 0; i < count; ++i) {
      const Part item = part.at("prefixItems", i);
      if (is_false(item)) {
        others = false;
        break;
      }
      prefix.push_back(shared_schema(item));
    }
  }
  const auto [least, most] = item_counts(part, prefix.size(), others);
  const size_t count = prefix.size();
  const Expr other = !others ? 0 : items == nullptr ? forms_.value() : shared_schema(part.at("items"));
  const auto after = [&](Expr item) { return builder_.sequence({forms_.comma(), item}); };

  // What may follow `begun` elements that stand before it.
  const size_t begun = std::max<size_t>(1, count);
  Expr tail = builder_.empty();
  if (others && most > begun) {
    const auto still = static_cast<uint32_t>(least > begun ? least - begun : 0);
    tail = builder_.repeat(after(other), still, most == kUnbounded ? kUnbounded : most - static_cast<uint32_t>(begun));
  }
  for (size_t i = std::min<size_t>(count, most); i-- > 1;) {
    const Expr longer = builder_.sequence({after(prefix[i]), tail});
    tail = shared(part.pointer, *part.tree, least > i ? longer : builder_.optional(longer));
  }
  Expr elements = builder_.empty();
  if (most > 0) {
    const Expr some = builder_.sequence({count > 0 ? prefix[0] : other, tail});
    elements = least > 0 ? some : builder_.optional(some);
  }
  return builder_.sequence({builder_.literal("["), elements, builder_.literal("]")});
}

}  // namespace

Grammar Grammar::from_json_schema(std::string_view text, const std::string& place) {
  return Compiler(text, place).run();
}

}  // namespace weft
