// The recursive descent parser behind parse(): statements in jinja_parser.cpp, expressions in jinja_expressions.cpp.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/depth.h"
#include "base/error.h"
#include "template/jinja_ast.h"
#include "template/jinja_lexer.h"

namespace weft::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& place) : tokens_(std::move(tokens)), place_(place) {}
  Body run();

 private:
  static constexpr int kMaxNesting = 48;  // of tags within tags and brackets within brackets
  static constexpr int kMaxDepth = 200;   // of one expression's tree: a + b + c + ...
  using Names = std::vector<std::string_view>;

  // Statements.
  Body parse_body(const Names& ends);
  Body parse_block(const Names& ends);
  Statement parse_output();
  Statement parse_statement();
  Statement parse_if();
  Statement parse_for();
  Statement parse_set();
  Statement parse_macro();
  void parse_parameters(Statement& macro);
  void parse_macro_body(Statement& macro, std::string_view end);
  Statement parse_call_block();
  ExprPtr parse_target();
  ExprPtr parse_one_target();
  Statement parse_filter_block();
  Statement parse_with();
  void end_tag();

  // Expressions, loosest first.
  ExprPtr parse_expression(bool conditional = true);
  ExprPtr parse_tuple(bool conditional = true);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters = true);
  ExprPtr parse_primary();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters(ExprPtr expr);
  ExprPtr parse_filter(ExprPtr expr);
  ExprPtr parse_test(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  ExprPtr parse_attribute(ExprPtr expr);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  void parse_arguments(Expr& call);

  template <typename Next>
  ExprPtr left_chain(std::initializer_list<std::string_view> ops, Next next);
  template <typename... Children>
  ExprPtr node(Expr::Kind kind, std::string name, Children... children) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = peek().line;
    expr->name = std::move(name);
    (adopt(*expr, std::move(children)), ...);
    return expr;
  }
  ExprPtr literal(Value value);
  void adopt(Expr& parent, ExprPtr child);
  void deepen(Expr& expr, const Expr& child);

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_op(std::string_view op) { return peek().is_op(op) && (take(), true); }
  bool take_name(std::string_view name) { return peek().is_name(name) && (take(), true); }
  void expect_op(std::string_view op);
  std::string expect_name();
  std::string expect_variable();
  std::string describe(const Token& token) const;
  [[noreturn]] void fail(const std::string& sentence) const {
    throw Error(Code::bad_file, sentence, template_place(place_, peek().line));
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(Code::unsupported, "not supported yet: " + what, template_place(place_, peek().line));
  }

  struct Nested : Depth::Level {
    explicit Nested(Parser& parser)
        : Depth::Level(parser.nesting_,
                       [&] { parser.fail("the template nests more than " + std::to_string(kMaxNesting) + " deep"); }) {}
  };

  std::vector<Token> tokens_;
  const std::string& place_;
  size_t at_ = 0;
  Depth nesting_{kMaxNesting};  // how deep the parser has called itself
  int loops_ = 0;               // for bodies open, for break and continue
  // Names in expressions that a macro around them has to hold.
  bool uses_caller_ = false, uses_varargs_ = false, uses_kwargs_ = false;
};

}  // namespace weft::jinja
