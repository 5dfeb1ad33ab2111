// Runs a parsed template: statements, then expressions.
#include <algorithm>
#include <deque>

#include "template/jinja_ast.h"
#include "template/jinja_builtins.h"

namespace weft::jinja {

// Variables of a for body, a macro or the template. A name is looked up from the innermost scope outwards and set in
// the innermost.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string, Value>> variables;

  void set(const std::string& name, Value value, Context& context) {
    context.spend(1 + variables.size() / 8);
    for (auto& [own, held] : variables) {
      if (own == name) {
        held = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }
};

namespace {

// How a body ended: at its end, or by a break or continue that the loop around it has to carry out.
enum class Exit { at_end, at_break, at_continue };

class Interpreter {
 public:
  Interpreter(const std::string& place, int64_t budget) : context_(place, budget) {}
  Text run(const Body& body, std::vector<std::pair<std::string, Value>> variables);

 private:
  Exit run_body(const Body& body);
  Exit run_statement(const Statement& statement);
  Exit run_if(const Statement& statement);
  Exit run_for(const Statement& statement);
  void run_set(const Statement& statement);
  void run_with(const Statement& statement);
  void bind(const std::vector<std::string>& names, const Value& value);
  Text capture(const Body& body);
  Value filtered(Text text, const Expr* filters);

  Value evaluate(const Expr& expr);
  Value evaluate_optional(const ExprPtr& expr) { return expr == nullptr ? Value(None{}) : evaluate(*expr); }
  Value evaluate_items(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  Arguments evaluate_arguments(const Expr& expr);
  Value look_up(const std::string& name);
  Scope* open_scope(Scope* parent);

  Context context_;
  // All scopes live to the end: a macro may outlive the one it was defined in.
  std::deque<Scope> scopes_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
};

Scope* Interpreter::open_scope(Scope* parent) {
  context_.spend(1);
  scopes_.push_back({parent, {}});
  return &scopes_.back();
}

Text Interpreter::run(const Body& body, std::vector<std::pair<std::string, Value>> variables) {
  scope_ = open_scope(nullptr);
  scope_->variables = std::move(variables);
  Text out;
  out_ = &out;
  run_body(body);
  return out;
}

// ---- Statements ----

Exit Interpreter::run_body(const Body& body) {
  for (const Statement& statement : body) {
    const Exit exit = run_statement(statement);
    if (exit != Exit::at_end) return exit;
  }
  return Exit::at_end;
}

Text Interpreter::capture(const Body& body) {
  Text text;
  Text* const outer = std::exchange(out_, &text);
  run_body(body);
  out_ = outer;
  return text;
}

// The text through a chain of filters that takes it as the name "".
Value Interpreter::filtered(Text text, const Expr* filters) {
  if (filters == nullptr) return text;
  Scope* const outer = std::exchange(scope_, open_scope(scope_));
  scope_->set("", std::move(text), context_);
  Value value = evaluate(*filters);
  scope_ = outer;
  return value;
}

Exit Interpreter::run_statement(const Statement& statement) {
  const Context::Level level(context_);
  context_.line = statement.line;
  context_.spend(1);
  const auto write = [&](const Value& value) {
    const Text text = to_text(value, context_);
    context_.spend_bytes(text.size());
    out_->append(text);
  };
  switch (statement.kind) {
    case Statement::Kind::text:
      write(statement.value);
      break;
    case Statement::Kind::output:
      write(evaluate(*statement.expr));
      break;
    case Statement::Kind::if_:
      return run_if(statement);
    case Statement::Kind::for_:
      return run_for(statement);
    case Statement::Kind::set:
      run_set(statement);
      break;
    case Statement::Kind::set_block: {
      const Value value = filtered(capture(statement.body), statement.expr.get());
      if (statement.name.empty()) {
        scope_->set(statement.targets[0], value, context_);
      } else {
        context_.unsupported("a block set of a namespace's member");
      }
      break;
    }
    case Statement::Kind::macro: {
      Callable macro;
      macro.macro = &statement;
      macro.scope = scope_;
      scope_->set(statement.name, macro, context_);
      break;
    }
    case Statement::Kind::filter_block:
      write(filtered(capture(statement.body), statement.expr.get()));
      break;
    case Statement::Kind::with:
      run_with(statement);
      break;
    case Statement::Kind::scope: {
      Scope* const outer = std::exchange(scope_, open_scope(scope_));
      const Exit exit = run_body(statement.body);
      scope_ = outer;
      return exit;
    }
    case Statement::Kind::break_:
      return Exit::at_break;
    case Statement::Kind::continue_:
      return Exit::at_continue;
  }
  return Exit::at_end;
}

Exit Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition == nullptr || evaluate(*branch.condition).truthy()) return run_body(branch.body);
  }
  return Exit::at_end;
}

void Interpreter::bind(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return scope_->set(names[0], value, context_);
  const std::vector<Value> items = iterate(value, context_);
  if (items.size() != names.size()) {
    context_.fail(std::to_string(items.size()) + " values are unpacked into " + std::to_string(names.size()) +
                  " names");
  }
  for (size_t i = 0; i < names.size(); ++i) scope_->set(names[i], items[i], context_);
}

Exit Interpreter::run_for(const Statement& statement) {
  std::vector<Value> items = iterate(evaluate(*statement.expr), context_);
  Scope* const outer = scope_;
  if (statement.condition != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scope_ = open_scope(outer);
      bind(statement.targets, item);
      if (evaluate(*statement.condition).truthy()) kept.push_back(std::move(item));
    }
    scope_ = outer;
    items = std::move(kept);
  }
  if (items.empty()) {
    scope_ = open_scope(outer);
    const Exit exit = run_body(statement.orelse);
    scope_ = outer;
    return exit;
  }
  context_.loops.emplace_back();
  Loop& loop = context_.loops.back();
  loop.items = std::make_shared<const std::vector<Value>>(std::move(items));
  for (const Value& item : *loop.items) {
    scope_ = open_scope(outer);
    scope_->set("loop", &loop, context_);
    bind(statement.targets, item);
    if (run_body(statement.body) == Exit::at_break) break;
    ++loop.index;
  }
  scope_ = outer;
  return Exit::at_end;
}

void Interpreter::run_set(const Statement& statement) {
  const Value value = evaluate(*statement.expr);
  if (statement.name.empty()) return bind(statement.targets, value);
  Namespace* const names = look_up(statement.name).names();
  if (names == nullptr) context_.fail("'" + statement.name + "' is no namespace");
  for (auto& [name, held] : names->members) {
    if (name == statement.targets[0]) {
      held = value;
      return;
    }
  }
  context_.spend(names->members.size());
  names->members.emplace_back(statement.targets[0], value);
}

void Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;
  for (const ExprPtr& expr : statement.defaults) values.push_back(evaluate(*expr));
  Scope* const outer = std::exchange(scope_, open_scope(scope_));
  for (size_t i = 0; i < values.size(); ++i) scope_->set(statement.targets[i], std::move(values[i]), context_);
  run_body(statement.body);
  scope_ = outer;
}

// ---- Expressions ----

Value Interpreter::look_up(const std::string& name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    context_.spend(1 + scope->variables.size() / 8);
    for (const auto& [own, value] : scope->variables) {
      if (own == name) return value;
    }
  }
  if (!is_function(name)) return Undefined{name};
  Callable function;
  function.name = name;
  return function;
}

Value Interpreter::evaluate_items(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  if (expr.kind != Expr::Kind::dict) return make_list(std::move(items), context_, expr.kind == Expr::Kind::tuple);
  std::vector<std::pair<Value, Value>> pairs;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].list() != nullptr || items[i].dict() != nullptr) context_.fail("a dict's key is a list or a dict");
    pairs.emplace_back(std::move(items[i]), std::move(items[i + 1]));
  }
  return make_dict(std::move(pairs), context_);
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  const auto holds = [&](const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return equal(a, b, context_);
    if (op == "!=") return !equal(a, b, context_);
    if (op == "<") return less(a, b, context_);
    if (op == ">") return less(b, a, context_);
    if (op == "in") return contains(b, a, context_);
    if (op == "not in") return !contains(b, a, context_);
    return op == "<=" ? !less(b, a, context_) : !less(a, b, context_);
  };
  Value left = evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.named.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!holds(expr.named[i].first, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::evaluate_arguments(const Expr& expr) {
  Arguments arguments;
  for (size_t i = 1; i < expr.children.size(); ++i) arguments.positional.push_back(evaluate(*expr.children[i]));
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

Value Interpreter::evaluate(const Expr& expr) {
  const Context::Level level(context_);
  context_.line = expr.line;
  context_.spend(1);
  const auto child = [&](size_t i) { return evaluate(*expr.children[i]); };
  switch (expr.kind) {
    case Expr::Kind::literal:
      return expr.value;
    case Expr::Kind::name:
      return look_up(expr.name);
    case Expr::Kind::list:
    case Expr::Kind::tuple:
    case Expr::Kind::dict:
      return evaluate_items(expr);
    case Expr::Kind::attribute:
      return get_attribute(child(0), expr.name, context_);
    case Expr::Kind::subscript: {
      const Value object = child(0);
      return get_item(object, child(1), context_);
    }
    case Expr::Kind::slice: {
      const Value object = child(0), start = evaluate_optional(expr.children[1]),
                  stop = evaluate_optional(expr.children[2]);
      return get_slice(object, start, stop, evaluate_optional(expr.children[3]), context_);
    }
    case Expr::Kind::call:
      return evaluate_call(expr);
    case Expr::Kind::filter: {
      const Value input = child(0);
      return apply_filter(expr.name, input, evaluate_arguments(expr), context_);
    }
    case Expr::Kind::test: {
      const Value input = child(0);
      return apply_test(expr.name, input, evaluate_arguments(expr), context_);
    }
    case Expr::Kind::binary: {
      const Value left = child(0);
      return arithmetic(expr.name, left, child(1), context_);
    }
    case Expr::Kind::compare:
      return evaluate_compare(expr);
    case Expr::Kind::logic_and: {
      Value left = child(0);
      return left.truthy() ? child(1) : left;
    }
    case Expr::Kind::logic_or: {
      Value left = child(0);
      return left.truthy() ? left : child(1);
    }
    case Expr::Kind::logic_not:
      return !child(0).truthy();
    case Expr::Kind::negative:
      return negate(child(0), context_);
    case Expr::Kind::conditional:
      if (child(1).truthy()) return child(0);
      return expr.children[2] == nullptr ? Value(Undefined{"the missing else"}) : child(2);
  }
  return {};
}

Value Interpreter::evaluate_call(const Expr& expr) {
  const Expr& callee = *expr.children[0];
  if (callee.kind == Expr::Kind::attribute) {
    const Value object = evaluate(*callee.children[0]);
    if (has_method(object, callee.name)) {
      const Arguments arguments = evaluate_arguments(expr);
      context_.line = expr.line;
      return call_method(object, callee.name, arguments, context_);
    }
    const Value member = get_attribute(object, callee.name, context_);
    if (member.is<Undefined>()) {
      if (object.text() != nullptr) context_.unsupported("the string method '" + callee.name + "'");
      context_.fail(std::string("a ") + object.type_name() + " has no method '" + callee.name + "'");
    }
    return call(member, evaluate_arguments(expr));
  }
  const Value function = evaluate(callee);
  const Arguments arguments = evaluate_arguments(expr);
  context_.line = expr.line;
  return call(function, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is<Undefined>()) context_.fail("'" + callee.undefined_name() + "' is undefined and cannot be called");
  if (callee.callable() == nullptr) context_.fail(std::string("a ") + callee.type_name() + " cannot be called");
  if (callee.callable()->macro == nullptr) return call_function(callee.callable()->name, arguments, context_);
  return call_macro(*callee.callable(), arguments);
}

Value Interpreter::call_macro(const Callable& callable, const Arguments& arguments) {
  const Context::Level level(context_);
  const Statement& macro = *callable.macro;
  if (arguments.positional.size() > macro.targets.size()) {
    context_.fail("the macro '" + macro.name + "' takes " + std::to_string(macro.targets.size()) +
                  " arguments but is given " + std::to_string(arguments.positional.size()));
  }
  for (const auto& [name, value] : arguments.named) {
    if (std::find(macro.targets.begin(), macro.targets.end(), name) == macro.targets.end()) {
      context_.fail("the macro '" + macro.name + "' has no argument '" + name + "'");
    }
  }
  Scope* const outer = std::exchange(scope_, open_scope(callable.scope));
  for (size_t i = 0; i < macro.targets.size(); ++i) {
    const Value* given = arguments.find(i, macro.targets[i]);
    Value value = Undefined{macro.targets[i]};
    if (given != nullptr) {
      value = *given;
    } else if (macro.defaults[i] != nullptr) {
      value = evaluate(*macro.defaults[i]);
    }
    scope_->set(macro.targets[i], std::move(value), context_);
  }
  Text text = capture(macro.body);
  scope_ = outer;
  return text;
}

}  // namespace

Text interpret(const Body& body, std::vector<std::pair<std::string, Value>> variables, const std::string& place,
               int64_t budget) {
  return Interpreter(place, budget).run(body, std::move(variables));
}

}  // namespace weft::jinja
