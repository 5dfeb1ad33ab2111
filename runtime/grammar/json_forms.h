// The grammars of JSON values that do not depend on a schema (RFC 8259), made once for each grammar that uses them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/grammar_builder.h"
#include "grammar/json_tree.h"

namespace weft {

class JsonForms {
 public:
  using Expr = GrammarBuilder::Expr;

  explicit JsonForms(GrammarBuilder& builder, std::string place) : builder_(builder), place_(std::move(place)) {}

  // Any value, of any depth.
  Expr value();
  Expr object();
  Expr array();
  Expr string();
  // Any number, of any length.
  Expr number();
  // Numbers of a set that is not empty.
  Expr number(const TextAutomaton& decimals);
  Expr boolean();
  Expr null() { return builder_.literal("null"); }

  // Exactly this value, with the spaces of the others.
  Expr exactly(const JsonTree& value);

  // Separators between elements, and between a name and its value: with one space or none.
  Expr comma() { return spaced(comma_, ","); }
  Expr colon() { return spaced(colon_, ":"); }

  // One character within a string, however it is written.
  Expr character();
  // One character of a set, which is not empty, within a string: as it is or, where it must be, with an escape.
  Expr character(const CodePointSet& set);

 private:
  // Made at the first use.
  template <typename Make>
  Expr once(std::optional<GrammarBuilder::Rule>& rule, const char* name, Make make);
  Expr spaced(std::optional<GrammarBuilder::Rule>& rule, const char* sign);
  Expr list(const char* open, Expr element, const char* close);

  GrammarBuilder& builder_;
  std::string place_;
  std::optional<GrammarBuilder::Rule> value_, object_, array_, string_, number_, character_, comma_, colon_;
  std::map<CodePointSet, Expr> characters_;  // those made before
};

}  // namespace weft
