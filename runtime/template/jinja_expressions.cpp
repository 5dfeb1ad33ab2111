// Expressions of the parser, loosest operators first.
#include <algorithm>
#include <array>

#include "template/jinja_parser.h"

namespace weft::jinja {

ExprPtr Parser::parse_expression(bool conditional) {
  const Nested nested(*this);
  ExprPtr value = parse_or();
  while (conditional && take_name("if")) {
    ExprPtr condition = parse_or();
    ExprPtr other = take_name("else") ? parse_expression() : nullptr;
    value = node(Expr::Kind::conditional, {}, std::move(value), std::move(condition), std::move(other));
  }
  return value;
}

// a, b, c without brackets is a tuple.
ExprPtr Parser::parse_tuple(bool conditional) {
  ExprPtr first = parse_expression(conditional);
  if (!peek().is_op(",")) return first;
  ExprPtr tuple = node(Expr::Kind::tuple, {}, std::move(first));
  while (take_op(",")) {
    const TokenType next = peek().type;
    if (next == TokenType::variable_end || next == TokenType::block_end || peek().is_op(")")) break;
    adopt(*tuple, parse_expression(conditional));
  }
  return tuple;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (take_name("or")) left = node(Expr::Kind::logic_or, {}, std::move(left), parse_and());
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (take_name("and")) left = node(Expr::Kind::logic_and, {}, std::move(left), parse_not());
  return left;
}

ExprPtr Parser::parse_not() {
  const Nested nested(*this);
  if (peek().is_name("not") && !peek(1).is_name("in")) {
    take();
    return node(Expr::Kind::logic_not, {}, parse_not());
  }
  return parse_compare();
}

ExprPtr Parser::parse_compare() {
  constexpr std::string_view kOps[] = {"==", "!=", "<", "<=", ">", ">="};
  ExprPtr left = parse_sum();
  ExprPtr chain;
  while (true) {
    std::string op;
    if (peek().type == TokenType::op && std::find(std::begin(kOps), std::end(kOps), peek().text) != std::end(kOps)) {
      op = take().text;
    } else if (take_name("in")) {
      op = "in";
    } else if (peek().is_name("not") && peek(1).is_name("in")) {
      take();
      take();
      op = "not in";
    } else {
      return chain ? std::move(chain) : std::move(left);
    }
    if (!chain) chain = node(Expr::Kind::compare, {}, std::move(left));
    chain->named.emplace_back(op, nullptr);
    adopt(*chain, parse_sum());
  }
}

template <typename Next>
ExprPtr Parser::left_chain(std::initializer_list<std::string_view> ops, Next next) {
  ExprPtr left = next();
  while (peek().type == TokenType::op && std::find(ops.begin(), ops.end(), peek().text) != ops.end()) {
    const std::string op = take().text;
    ExprPtr right = next();
    left = node(Expr::Kind::binary, op, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_sum() {
  return left_chain({"+", "-"}, [this] { return parse_concat(); });
}
ExprPtr Parser::parse_concat() {
  return left_chain({"~"}, [this] { return parse_product(); });
}
ExprPtr Parser::parse_product() {
  return left_chain({"*", "/", "//", "%"}, [this] { return parse_power(); });
}
ExprPtr Parser::parse_power() {
  return left_chain({"**"}, [this] { return parse_unary(); });
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const Nested nested(*this);
  ExprPtr expr;
  if (take_op("-")) {
    expr = node(Expr::Kind::negative, {}, parse_unary(false));
  } else if (take_op("+")) {
    expr = node(Expr::Kind::positive, {}, parse_unary(false));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filters ? parse_filters(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::parse_primary() {
  const Token& token = peek();
  switch (token.type) {
    case TokenType::name: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return literal(true);
      if (name == "false" || name == "False") return literal(false);
      if (name == "none" || name == "None") return literal(None{});
      uses_caller_ |= name == "caller";
      uses_varargs_ |= name == "varargs";
      uses_kwargs_ |= name == "kwargs";
      return node(Expr::Kind::name, name);
    }
    case TokenType::string: {
      std::string text = take().text;
      while (peek().type == TokenType::string) text += take().text;
      return literal(Value(std::move(text)));
    }
    case TokenType::integer:
      return literal(take().integer);
    case TokenType::real:
      return literal(take().real);
    default:
      break;
  }
  if (take_op("(")) {
    if (take_op(")")) return node(Expr::Kind::tuple, {});
    ExprPtr expr = parse_tuple();
    expect_op(")");
    return expr;
  }
  if (take_op("[")) return parse_list();
  if (take_op("{")) return parse_dict();
  fail("expected a value but found " + describe(token));
}

ExprPtr Parser::parse_list() {
  ExprPtr list = node(Expr::Kind::list, {});
  while (!take_op("]")) {
    if (!list->children.empty()) {
      expect_op(",");
      if (take_op("]")) break;
    }
    adopt(*list, parse_expression());
  }
  return list;
}

ExprPtr Parser::parse_dict() {
  ExprPtr dict = node(Expr::Kind::dict, {});
  while (!take_op("}")) {
    if (!dict->children.empty()) {
      expect_op(",");
      if (take_op("}")) break;
    }
    adopt(*dict, parse_expression());
    expect_op(":");
    adopt(*dict, parse_expression());
  }
  return dict;
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (take_op(".")) {
      expr = parse_attribute(std::move(expr));
    } else if (take_op("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (take_op("(")) {
      expr = node(Expr::Kind::call, {}, std::move(expr));
      parse_arguments(*expr);
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_attribute(ExprPtr expr) {
  if (peek().type == TokenType::integer) {
    return node(Expr::Kind::subscript, {}, std::move(expr), literal(take().integer));
  }
  return node(Expr::Kind::attribute, expect_name(), std::move(expr));
}

ExprPtr Parser::parse_subscript(ExprPtr expr) {
  std::array<ExprPtr, 3> parts;
  size_t part = 0;
  bool slice = false;
  while (!take_op("]")) {
    if (take_op(":")) {
      slice = true;
      if (++part > 2) fail("a slice has more than three parts");
      continue;
    }
    if (parts[part] != nullptr) fail("expected ']' but found " + describe(peek()));
    parts[part] = parse_expression();
  }
  if (slice) {
    return node(Expr::Kind::slice, {}, std::move(expr), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  }
  if (parts[0] == nullptr) fail("nothing stands between [ and ]");
  return node(Expr::Kind::subscript, {}, std::move(expr), std::move(parts[0]));
}

// The arguments of a call whose "(" has been taken.
void Parser::parse_arguments(Expr& call) {
  bool first = true, spread = false, spread_named = false;
  while (!take_op(")")) {
    if (!first) {
      expect_op(",");
      if (take_op(")")) return;
    }
    first = false;
    if (spread_named) fail("an argument follows one with **");
    if (take_op("**")) {
      spread_named = true;
      call.named.emplace_back("**", parse_expression());
      deepen(call, *call.named.back().second);
    } else if (take_op("*")) {
      if (spread) fail("a call has two arguments with *");
      spread = true;
      adopt(call, node(Expr::Kind::spread, {}, parse_expression()));
    } else if (peek().type == TokenType::name && peek(1).is_op("=")) {
      const std::string name = take().text;
      take();
      call.named.emplace_back(name, parse_expression());
      deepen(call, *call.named.back().second);
    } else {
      if (!call.named.empty() || spread) fail("an argument without a name follows one with a name");
      adopt(call, parse_expression());
    }
  }
}

ExprPtr Parser::parse_filters(ExprPtr expr) {
  while (true) {
    if (peek().is_op("|")) {
      take();
      expr = parse_filter(std::move(expr));
    } else if (take_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (take_op("(")) {
      expr = node(Expr::Kind::call, {}, std::move(expr));
      parse_arguments(*expr);
    } else {
      return expr;
    }
  }
}

// A filter whose "|" has been taken.
ExprPtr Parser::parse_filter(ExprPtr expr) {
  std::string name = expect_name();
  while (take_op(".")) name += "." + expect_name();
  ExprPtr filter = node(Expr::Kind::filter, std::move(name), std::move(expr));
  if (take_op("(")) parse_arguments(*filter);
  return filter;
}

// A test whose "is" has been taken.
ExprPtr Parser::parse_test(ExprPtr expr) {
  const bool negated = take_name("not");
  std::string name = expect_name();
  while (take_op(".")) name += "." + expect_name();
  ExprPtr test = node(Expr::Kind::test, std::move(name), std::move(expr));
  const Token& next = peek();
  const bool starts_value =
      next.type == TokenType::string || next.type == TokenType::integer || next.type == TokenType::real ||
      next.is_op("[") || next.is_op("{") ||
      (next.type == TokenType::name && !next.is_name("else") && !next.is_name("or") && !next.is_name("and"));
  if (next.is_name("is")) fail("a test follows a test");
  if (take_op("(")) {
    parse_arguments(*test);
  } else if (starts_value) {
    adopt(*test, parse_postfix(parse_primary()));
  }
  return negated ? node(Expr::Kind::logic_not, {}, std::move(test)) : std::move(test);
}

}  // namespace weft::jinja
