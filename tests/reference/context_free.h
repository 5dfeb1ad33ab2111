// Context-free grammars as plain trees, and a slow and obvious matcher: it tries all derivations.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::reference {

struct Expr {
  enum class Kind { literal, set, sequence, choice, repeat, call };
  Kind kind = Kind::sequence;
  std::string text;               // literal: UTF-8
  std::vector<char32_t> members;  // set
  bool inverse = false;           // set: all characters but the members
  std::vector<Expr> parts;        // sequence, choice; one for repeat
  unsigned least = 0, most = 0;   // repeat; kUnbounded is no limit
  size_t rule = 0;                // call

  static constexpr unsigned kUnbounded = ~0u;
};

// rules[0] is the root.
struct ContextFree {
  std::vector<Expr> rules;

  // Returns the grammar as GBNF; rules are "root", "r1", "r2", ...
  std::string gbnf() const;
  // True if a rule calls itself before anything is read.
  bool is_left_recursive() const;
  // True if a rule matches no text of any length.
  bool has_endless_rule() const;
};

// Verdict on a text, under a grammar that is not left-recursive and has no endless rule.
struct Verdict {
  bool matches = false;     // it is a text of the grammar
  bool begins_one = false;  // it is one, or the beginning of one
};
Verdict judge(const ContextFree& grammar, std::string_view text);

}  // namespace weft::reference
