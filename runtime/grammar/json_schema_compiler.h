// From the conditions of a JSON Schema to the expressions of a grammar.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar_builder.h"
#include "grammar/json_forms.h"
#include "grammar/json_schema_conditions.h"
#include "grammar/json_schema_texts.h"

namespace weft {

class JsonSchemaCompiler {
 public:
  using Expr = GrammarBuilder::Expr;

  JsonSchemaCompiler(GrammarBuilder& builder, std::string_view text, const std::string& place)
      : document_(text, place), texts_(document_), builder_(builder), forms_(builder_, place) {}

  GrammarBuilder::Rule run();

 private:
  using Part = JsonSchemaPart;

  [[noreturn]] void fail(const Part& part, const JsonTree& tree, const std::string& sentence,
                         const std::string& hint = {}) const {
    document_.fail(part, tree, sentence, hint);
  }
  [[noreturn]] void refuse(const SchemaCondition& condition, const std::string& why = {}) const;

  // The values that satisfy all terms: a rule, compiled later, so that schemas may refer to themselves.
  Expr values(const SchemaTerms& terms);
  Expr compile(const SchemaTerms& terms);
  Expr branch(const SchemaBranch& branch, const SchemaTerms& terms, std::vector<const JsonTree*>& listed);
  // The values of the branch's `enum` and `const`, if it has one, that satisfy all terms.
  std::optional<std::vector<const JsonTree*>> listed_values(const SchemaBranch& branch, const SchemaTerms& terms);
  // All values that can satisfy the terms, if they are listed.
  std::optional<std::vector<const JsonTree*>> all_values(const SchemaTerms& terms);
  std::optional<Expr> scalars(const SchemaBranch& branch, uint32_t types);
  std::optional<Expr> string(const SchemaBranch& branch);
  std::optional<Expr> number(const SchemaBranch& branch, uint32_t types);

  // ---- Objects (json_schema_objects.cpp) ----
  struct Property {
    Expr pair = 0;  // "name": value
    bool required = false;
  };
  struct Objects {
    std::vector<Property> listed;
    std::vector<Expr> others;  // pairs with names that are not listed
    uint32_t least = 0, most = UINT32_MAX;
    const SchemaCondition* least_condition = nullptr;
  };
  std::optional<Expr> object(const SchemaBranch& branch);
  bool list_properties(const SchemaBranch& branch, Objects& objects);
  void add_others(const SchemaBranch& branch, const std::vector<std::string>& names, Objects& objects);
  std::optional<Expr> pairs(const Objects& objects);
  std::optional<Expr> counted_pairs(const Objects& objects, const SchemaBranch& branch);
  Expr pair(Expr name, Expr value) { return builder_.sequence({name, forms_.colon(), value}); }
  SchemaTerms property_terms(const SchemaBranch& branch, const std::string& name);

  // ---- Arrays (json_schema_arrays.cpp) ----
  struct Arrays {
    std::vector<SchemaTerms> prefix;  // of the first elements
    SchemaTerms rest;                 // of the others
    uint64_t least = 0, most = UINT32_MAX;
  };
  // Elements that have to be there: of least to most, those from `from` on that satisfy the terms.
  struct Count {
    SchemaTerms terms;
    uint32_t least = 1;
    std::optional<uint32_t> most;
    size_t from = 0, to = SIZE_MAX;
    const SchemaCondition* condition = nullptr;
  };
  std::optional<Expr> array(const SchemaBranch& branch);
  std::optional<Arrays> sizes(const SchemaBranch& branch);
  std::vector<Count> counts(const SchemaBranch& branch);
  Expr elements(const Arrays& arrays);
  std::optional<Expr> counted_elements(const Arrays& arrays, const std::vector<Count>& counts);
  std::optional<Expr> unique_elements(const Arrays& arrays, const SchemaCondition& condition);

  Expr list(Expr inside, const char* open, const char* close) {
    return builder_.sequence({builder_.literal(open), inside, builder_.literal(close)});
  }

  JsonSchemaDocument document_;
  JsonSchemaTexts texts_;
  GrammarBuilder& builder_;
  JsonForms forms_;
  using Key = std::vector<std::pair<const JsonTree*, bool>>;
  std::map<Key, GrammarBuilder::Rule> rules_;
  std::vector<std::pair<GrammarBuilder::Rule, SchemaTerms>> pending_;
};

}  // namespace weft
