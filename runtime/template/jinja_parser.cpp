// Statements of the parser.
#include <algorithm>

#include "base/utf8.h"
#include "template/jinja_parser.h"

namespace weft::jinja {

std::string Parser::describe(const Token& token) const {
  switch (token.type) {
    case TokenType::end:
      return "the template's end";
    case TokenType::block_end:
      return "the tag's end";
    case TokenType::variable_end:
      return "the end }}";
    case TokenType::data:
      return "text";
    case TokenType::integer:
    case TokenType::real:
      return "a number";
    case TokenType::string:
      return "the string " + in_quotes(token.text);
    default:
      return in_quotes(token.text);
  }
}

void Parser::expect_op(std::string_view op) {
  if (!take_op(op)) fail("expected '" + std::string(op) + "' but found " + describe(peek()));
}

std::string Parser::expect_name() {
  if (peek().type != TokenType::name) fail("expected a name but found " + describe(peek()));
  return take().text;
}

// A name that a template may give a value.
std::string Parser::expect_variable() {
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (peek().is_name(constant)) fail("'" + std::string(constant) + "' cannot be set");
  }
  return expect_name();
}

void Parser::deepen(Expr& expr, const Expr& child) {
  expr.depth = std::max(expr.depth, child.depth + 1);
  if (expr.depth > kMaxDepth) fail("an expression of more than " + std::to_string(kMaxDepth) + " levels");
}

void Parser::adopt(Expr& parent, ExprPtr child) {
  if (child) deepen(parent, *child);
  parent.children.push_back(std::move(child));
}

ExprPtr Parser::literal(Value value) {
  ExprPtr expr = node(Expr::Kind::literal, {});
  expr->value = std::move(value);
  return expr;
}

Body Parser::run() {
  Body body = parse_body({});
  if (peek().type != TokenType::end) fail("unexpected " + describe(peek()));
  return body;
}

// Statements up to the template's end or a tag of one of these names, of which the opening and the name are left to
// take.
Body Parser::parse_body(const Names& ends) {
  const Nested nested(*this);
  Body body;
  while (true) {
    const Token& token = peek();
    if (token.type == TokenType::end) return body;
    if (token.type == TokenType::data) {
      Statement text;
      text.line = token.line;
      text.value = Value(take().text);
      body.push_back(std::move(text));
    } else if (token.type == TokenType::variable_begin) {
      body.push_back(parse_output());
    } else {
      if (peek(1).type == TokenType::name && std::find(ends.begin(), ends.end(), peek(1).text) != ends.end())
        return body;
      take();
      body.push_back(parse_statement());
    }
  }
}

void Parser::end_tag() {
  if (peek().type != TokenType::block_end) fail("expected the tag's end but found " + describe(peek()));
  take();
}

// The body of a tag whose own end has been taken, up to one of ends, whose opening is taken too.
Body Parser::parse_block(const Names& ends) {
  const uint32_t line = peek().line;
  Body body = parse_body(ends);
  if (peek().type == TokenType::end) {
    throw Error(Code::bad_file, "'" + std::string(ends.back()) + "' is missing", template_place(place_, line));
  }
  take();
  return body;
}

Statement Parser::parse_output() {
  Statement out;
  out.kind = Statement::Kind::output;
  out.line = take().line;
  out.expr = parse_tuple();
  if (peek().type != TokenType::variable_end) fail("expected }} but found " + describe(peek()));
  take();
  return out;
}

Statement Parser::parse_statement() {
  const uint32_t line = peek().line;
  const std::string tag = expect_name();
  Statement out;
  if (tag == "if") {
    out = parse_if();
  } else if (tag == "for") {
    out = parse_for();
  } else if (tag == "set") {
    out = parse_set();
  } else if (tag == "macro") {
    out = parse_macro();
  } else if (tag == "call") {
    out = parse_call_block();
  } else if (tag == "filter") {
    out = parse_filter_block();
  } else if (tag == "with") {
    out = parse_with();
  } else if (tag == "generation") {
    out.kind = Statement::Kind::scope;
    end_tag();
    out.body = parse_block({"endgeneration"});
    take();
    end_tag();
  } else if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail("'" + tag + "' outside of a for loop");
    out.kind = tag == "break" ? Statement::Kind::break_ : Statement::Kind::continue_;
    end_tag();
  } else {
    constexpr std::string_view kKnown[] = {"import", "from",       "include", "extends", "block",
                                           "do",     "autoescape", "trans",   "debug"};
    if (std::find(std::begin(kKnown), std::end(kKnown), tag) != std::end(kKnown)) unsupported("the tag '" + tag + "'");
    fail("the tag " + in_quotes(tag) + " has no meaning here");
  }
  out.line = line;
  return out;
}

Statement Parser::parse_if() {
  Statement out;
  out.kind = Statement::Kind::if_;
  ExprPtr condition = parse_tuple(false);
  while (true) {
    end_tag();
    const bool last = condition == nullptr;
    Branch branch{std::move(condition), {}};
    branch.body = last ? parse_block({"endif"}) : parse_block({"elif", "else", "endif"});
    out.branches.push_back(std::move(branch));
    const std::string tag = take().text;
    if (tag == "endif") break;
    condition = tag == "elif" ? parse_tuple(false) : nullptr;
  }
  end_tag();
  return out;
}

Statement Parser::parse_for() {
  Statement out;
  out.kind = Statement::Kind::for_;
  out.targets.push_back(parse_target());
  if (!take_name("in")) fail("expected 'in' but found " + describe(peek()));
  out.expr = parse_tuple(false);
  if (take_name("if")) out.condition = parse_expression();
  out.recursive = take_name("recursive");
  end_tag();
  ++loops_;
  out.body = parse_block({"else", "endfor"});
  --loops_;
  if (take().text == "else") {
    end_tag();
    out.orelse = parse_block({"endfor"});
    take();
  }
  end_tag();
  return out;
}

Statement Parser::parse_set() {
  Statement out;
  out.kind = Statement::Kind::set;
  out.targets.push_back(parse_target());
  if (take_op("=")) {
    out.expr = parse_tuple();
    end_tag();
    return out;
  }
  if (out.targets[0]->kind == Expr::Kind::tuple) fail("expected '=' but found " + describe(peek()));
  out.kind = Statement::Kind::set_block;
  if (peek().is_op("|")) out.expr = parse_filters(node(Expr::Kind::name, ""));
  end_tag();
  out.body = parse_block({"endset"});
  take();
  end_tag();
  return out;
}

// Something to assign to: a name, an attribute of a name, or a tuple of these.
ExprPtr Parser::parse_target() {
  ExprPtr first = parse_one_target();
  if (!peek().is_op(",")) return first;
  ExprPtr tuple = node(Expr::Kind::tuple, {}, std::move(first));
  while (take_op(",")) {
    if (peek().is_op("=") || peek().is_op(")") || peek().is_name("in")) break;
    adopt(*tuple, parse_one_target());
  }
  return tuple;
}

ExprPtr Parser::parse_one_target() {
  const Nested nested(*this);
  if (take_op("(")) {
    ExprPtr target = parse_target();
    expect_op(")");
    return target;
  }
  ExprPtr name = node(Expr::Kind::name, expect_variable());
  if (!take_op(".")) return name;
  return node(Expr::Kind::attribute, expect_name(), std::move(name));
}

// A macro's parameters, of which the "(" has been taken.
void Parser::parse_parameters(Statement& macro) {
  while (!take_op(")")) {
    if (!macro.parameters.empty()) {
      expect_op(",");
      if (take_op(")")) break;
    }
    macro.parameters.push_back(expect_variable());
    const bool after_default = !macro.defaults.empty() && macro.defaults.back() != nullptr;
    macro.defaults.push_back(take_op("=") ? parse_expression() : nullptr);
    if (after_default && macro.defaults.back() == nullptr) fail("a parameter without a default follows one with it");
  }
}

// The body of a macro up to its end tag, of which the opening and the name are taken.
void Parser::parse_macro_body(Statement& macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  const bool caller = std::exchange(uses_caller_, false), varargs = std::exchange(uses_varargs_, false),
             kwargs = std::exchange(uses_kwargs_, false);
  macro.body = parse_block({end});
  macro.uses_caller = uses_caller_;
  macro.uses_varargs = uses_varargs_;
  macro.uses_kwargs = uses_kwargs_;
  uses_caller_ |= caller;
  uses_varargs_ |= varargs;
  uses_kwargs_ |= kwargs;
  loops_ = loops;
  take();
}

Statement Parser::parse_macro() {
  Statement out;
  out.kind = Statement::Kind::macro;
  out.name = expect_name();
  expect_op("(");
  parse_parameters(out);
  end_tag();
  parse_macro_body(out, "endmacro");
  if (peek().type == TokenType::name) take();  // {% endmacro NAME %}
  end_tag();
  return out;
}

Statement Parser::parse_call_block() {
  Statement out;
  out.kind = Statement::Kind::call_block;
  out.name = "caller";
  if (take_op("(")) parse_parameters(out);
  out.expr = parse_expression();
  if (out.expr->kind != Expr::Kind::call) fail("expected a call but found " + describe(peek()));
  end_tag();
  parse_macro_body(out, "endcall");
  end_tag();
  return out;
}

Statement Parser::parse_filter_block() {
  Statement out;
  out.kind = Statement::Kind::filter_block;
  ExprPtr input = node(Expr::Kind::name, "");
  out.expr = parse_filters(parse_filter(std::move(input)));
  end_tag();
  out.body = parse_block({"endfilter"});
  take();
  end_tag();
  return out;
}

Statement Parser::parse_with() {
  Statement out;
  out.kind = Statement::Kind::with;
  while (peek().type != TokenType::block_end) {
    if (!out.targets.empty()) expect_op(",");
    out.targets.push_back(parse_target());
    expect_op("=");
    out.defaults.push_back(parse_expression());
  }
  end_tag();
  out.body = parse_block({"endwith"});
  take();
  end_tag();
  return out;
}

Body parse(std::string_view source, const std::string& place) { return Parser(lex(source, place), place).run(); }

}  // namespace weft::jinja
