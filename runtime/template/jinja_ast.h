// A parsed template, and what makes and runs it. Constant after parsing; no tree is deeper than the parser's limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/jinja_value.h"

namespace weft::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    literal,    // value
    name,       // name
    list,       // children
    tuple,      // children
    dict,       // children: key, value, key, value ...
    attribute,  // children[0] . name
    subscript,  // children[0] [ children[1] ]
    slice,      // children[0] [ children[1] : children[2] : children[3] ], each of these may be null
    call,       // children[0] ( children[1...], named ); the name "**": more named ones, of a dict
    spread,     // * children[0] among arguments
    filter,     // children[0] | name ( children[1...], named )
    test,       // children[0] is name ( children[1...], named )
    binary,     // children[0] name children[1]: + - * / // % ** ~
    compare,    // children[0] named[0] children[1] named[1] children[2] ...: == != < <= > >= in not-in, the names alone
    logic_and,  // children[0], children[1]
    logic_or,   // children[0], children[1]
    logic_not,  // children[0]
    negative,   // - children[0]
    positive,   // + children[0]
    conditional,  // children[0] if children[1] else children[2], which may be null
  };
  Kind kind = Kind::literal;
  uint32_t line = 1;
  int depth = 1;  // of the tree below
  std::string name;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Kind {
    text,          // value
    output,        // expr
    if_,           // branches
    for_,          // targets[0] in expr if condition: body, else orelse
    set,           // targets[0] = expr
    set_block,     // targets[0] = body through the filters in expr (null: none), which see it as the name ""
    macro,         // name(parameters with defaults): body
    call_block,    // expr, a call that is given body as the macro "caller" with parameters and defaults
    filter_block,  // body through the filters in expr
    with,          // targets = defaults: body
    scope,         // body, in a scope of its own ({% generation %})
    break_,
    continue_,
  };
  Kind kind = Kind::text;
  uint32_t line = 1;
  std::string name;
  Value value;
  ExprPtr expr, condition;
  // Names, attributes of names, or tuples of them.
  std::vector<ExprPtr> targets;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // as many as parameters, or as targets of with; null for one without
  bool recursive = false;         // a loop that calls itself
  // A macro's body names these.
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  std::vector<Branch> branches;
  Body body, orelse;
};

// Parses a template. place: for errors. Throws Error(bad_file) naming the line where the template contradicts Jinja's
// grammar, Error(unsupported) naming a tag that Weft does not know.
Body parse(std::string_view source, const std::string& place);

// Runs a parsed template with these variables. budget: how many steps it may take. Throws Error: bad_file or
// unsupported naming the line, invalid_argument where the template itself raises an exception.
Text interpret(const Body& body, std::vector<std::pair<std::string, Value>> variables, const std::string& place,
               int64_t budget);

}  // namespace weft::jinja
