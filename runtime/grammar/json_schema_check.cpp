#include "grammar/json_schema_check.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/decimal_ranges.h"

namespace weft {
namespace {

using Part = JsonSchemaPart;
using Type = JsonTree::Type;

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

class Check {
 public:
  Check(const JsonSchemaDocument& document, JsonSchemaTexts& texts) : document_(document), texts_(texts) {}

  bool valid(const JsonTree& value, const Part& part) {
    if (part.tree->is(Type::boolean)) return part.tree->text == "true";
    document_.check_keywords(part);
    if (++depth_ > kMaxDepth) document_.fail(part, *part.tree, "its references lead in a circle");
    const bool good = std::all_of(part.tree->members.begin(), part.tree->members.end(), [&](const auto& member) {
      return JsonSchemaDocument::is_annotation(member.key) || keyword(value, part, member.key, member.value);
    });
    --depth_;
    return good;
  }

 private:
  static constexpr int kMaxDepth = 300;

  bool keyword(const JsonTree& value, const Part& part, const std::string& key, const JsonTree& rule) {
    const uint32_t speaks_of = document_.types_of_keyword(key);
    if (speaks_of != 0 && (speaks_of & json_type(value)) == 0) return true;
    switch (speaks_of) {
      case 0:
        return of_any_type(value, part, key, rule);
      case kJsonNumber:
        return number(parse_decimal(value.text), part, key, rule);
      case kJsonString:
        return string(value.text, part, key, rule);
      case kJsonArray:
        return array(value, part, key, rule);
      default:
        return object(value, part, key, rule);
    }
  }

  bool of_any_type(const JsonTree& value, const Part& part, const std::string& key, const JsonTree& rule) {
    if (key == "$ref") return valid(value, document_.resolve(part));
    if (key == "type") return (document_.types(part) & json_type(value)) != 0;
    if (key == "const") return same_value(value, rule);
    if (key == "enum") {
      return std::any_of(rule.items.begin(), rule.items.end(),
                         [&](const JsonTree& one) { return same_value(value, one); });
    }
    if (key == "not") return !valid(value, part.at(key));
    if (key == "if") {
      const char* next = valid(value, part.at(key)) ? "then" : "else";
      return part.tree->find(next) == nullptr || valid(value, part.at(next));
    }
    if (key == "then" || key == "else") return true;
    size_t matching = 0;
    const size_t count = document_.list(part, key).items.size();
    for (size_t i = 0; i < count; ++i) matching += valid(value, part.at(key, i)) ? 1 : 0;
    return key == "oneOf" ? matching == 1 : key == "anyOf" ? matching > 0 : matching == count;
  }

  bool number(const Decimal& value, const Part& part, const std::string& key, const JsonTree&) {
    const Decimal bound = document_.number(part, key);
    if (key == "multipleOf") return is_multiple(value, bound);
    const int order = compare(value, bound);
    return key == "minimum"            ? order >= 0
           : key == "maximum"          ? order <= 0
           : key == "exclusiveMinimum" ? order > 0
                                       : order < 0;
  }

  bool string(const std::string& text, const Part& part, const std::string& key, const JsonTree& rule) {
    if (key == "minLength") return characters(text) >= *document_.find_count(part, key);
    if (key == "maxLength") return characters(text) <= *document_.find_count(part, key);
    const auto allowed = texts_.satisfying(SchemaCondition{key, part, &rule, false, {}, 0});
    return !allowed || allowed->accepts(text);
  }

  bool array(const JsonTree& value, const Part& part, const std::string& key, const JsonTree& rule) {
    const auto& items = value.items;
    if (key == "minItems") return items.size() >= *document_.find_count(part, key);
    if (key == "maxItems") return items.size() <= *document_.find_count(part, key);
    if (key == "uniqueItems") {
      for (size_t i = 0; rule.text == "true" && i < items.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (same_value(items[i], items[j])) return false;
        }
      }
      return true;
    }
    if (key == "contains") {
      size_t found = 0;
      for (const JsonTree& item : items) found += valid(item, part.at(key)) ? 1 : 0;
      return found >= document_.find_count(part, "minContains").value_or(1) &&
             found <= document_.find_count(part, "maxContains").value_or(UINT32_MAX);
    }
    if (key == "minContains" || key == "maxContains") return true;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto schema = document_.item(part, i);
      if (schema && !valid(items[i], *schema)) return false;
    }
    return true;
  }

  bool object(const JsonTree& value, const Part& part, const std::string& key, const JsonTree& rule) {
    const auto& members = value.members;
    if (key == "minProperties") return members.size() >= *document_.find_count(part, key);
    if (key == "maxProperties") return members.size() <= *document_.find_count(part, key);
    const auto has_all = [&](const std::vector<std::string>& names) {
      return std::all_of(names.begin(), names.end(), [&](const auto& name) { return value.find(name) != nullptr; });
    };
    if (key == "required") return has_all(document_.names(part, key));
    if (key == "propertyNames") {
      return std::all_of(members.begin(), members.end(), [&](const JsonTree::Member& member) {
        return valid(JsonTree{Type::string, member.value.line, member.key, {}, {}}, part.at(key));
      });
    }
    if (key.starts_with("depend")) {
      return std::all_of(rule.members.begin(), rule.members.end(), [&](const JsonTree::Member& member) {
        if (value.find(member.key) == nullptr) return true;
        if (member.value.is(Type::array)) return has_all(document_.names(part.at(key), member.key));
        return valid(value, part.at(key, member.key));
      });
    }
    for (const JsonTree::Member& member : members) {
      for (const Part& schema : texts_.property(part, member.key)) {
        if (!valid(member.value, schema)) return false;
      }
    }
    return true;
  }

  const JsonSchemaDocument& document_;
  JsonSchemaTexts& texts_;
  int depth_ = 0;
};

}  // namespace

bool same_value(const JsonTree& a, const JsonTree& b) {
  const auto is_number = [](const JsonTree& tree) { return tree.is(Type::integer) || tree.is(Type::number); };
  if (is_number(a) && is_number(b)) return compare(parse_decimal(a.text), parse_decimal(b.text)) == 0;
  if (a.type != b.type || a.items.size() != b.items.size() || a.members.size() != b.members.size()) return false;
  if (!a.is(Type::array) && !a.is(Type::object)) return a.text == b.text;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!same_value(a.items[i], b.items[i])) return false;
  }
  return std::all_of(a.members.begin(), a.members.end(), [&](const JsonTree::Member& member) {
    const JsonTree* other = b.find(member.key);
    return other != nullptr && same_value(member.value, *other);
  });
}

bool satisfies(const JsonTree& value, const SchemaTerms& terms, const JsonSchemaDocument& document,
               JsonSchemaTexts& texts) {
  Check check(document, texts);
  return std::all_of(terms.begin(), terms.end(),
                     [&](const SchemaTerm& term) { return check.valid(value, term.part) != term.negated; });
}

}  // namespace weft
