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
  Exit run_loop(const Statement& statement, const Value& over, Scope* outer, int depth);
  void bind(const Expr& target, const Value& value);
  void set_member(const std::string& object, const std::string& member, const Value& value);
  Text capture(const Body& body);
  Value filtered(Text text, const Expr* filters);

  static bool is_constant(const Expr& expr);
  Value evaluate(const Expr& expr);
  Value evaluate_optional(const ExprPtr& expr) { return expr == nullptr ? Value(None{}) : evaluate(*expr); }
  Value evaluate_items(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  // caller: the body of a call block, or null.
  Value evaluate_call(const Expr& expr, const Value* caller);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  void bind_parameters(const Statement& macro, const Arguments& arguments);
  Value call_loop(Loop& loop, const Arguments& arguments);
  Arguments evaluate_arguments(const Expr& expr);
  Value look_up(const std::string& name);
  Scope* open_scope(Scope* parent);

  Context context_;
  // All scopes live to the end: a macro may outlive the one it was defined in.
  std::deque<Scope> scopes_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  const Expr* output_ = nullptr;  // the expression whose value is about to be written; null within other statements
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

// The text of a body in a scope of its own.
Text Interpreter::capture(const Body& body) {
  Text text;
  Text* const outer_text = std::exchange(out_, &text);
  Scope* const outer = std::exchange(scope_, open_scope(scope_));
  run_body(body);
  scope_ = outer;
  out_ = outer_text;
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
    case Statement::Kind::output: {
      const Expr* const outer = std::exchange(output_, statement.expr.get());
      write(evaluate(*statement.expr));
      output_ = outer;
      break;
    }
    case Statement::Kind::if_:
      return run_if(statement);
    case Statement::Kind::for_:
      return run_for(statement);
    case Statement::Kind::set:
      run_set(statement);
      break;
    case Statement::Kind::set_block: {
      bind(*statement.targets[0], filtered(capture(statement.body), statement.expr.get()));
      break;
    }
    case Statement::Kind::macro: {
      Callable macro;
      macro.macro = &statement;
      macro.scope = scope_;
      scope_->set(statement.name, macro, context_);
      break;
    }
    case Statement::Kind::call_block: {
      Callable caller;
      caller.macro = &statement;
      caller.scope = scope_;
      const Value body = caller;
      write(evaluate_call(*statement.expr, &body));
      break;
    }
    case Statement::Kind::filter_block: {
      const Value value = filtered(capture(statement.body), statement.expr.get());
      if (value.text() == nullptr) context_.fail(std::string("a filter block makes a ") + value.type_name());
      write(value);
      break;
    }
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

void Interpreter::set_member(const std::string& object, const std::string& member, const Value& value) {
  Namespace* const names = look_up(object).names();
  if (names == nullptr || names->kind != Namespace::Kind::names) context_.fail("'" + object + "' is no namespace");
  for (auto& [name, held] : names->members) {
    if (name == member) {
      held = value;
      return;
    }
  }
  context_.spend(1 + names->members.size());
  names->members.emplace_back(member, value);
}

void Interpreter::bind(const Expr& target, const Value& value) {
  if (target.kind == Expr::Kind::name) return scope_->set(target.name, value, context_);
  if (target.kind == Expr::Kind::attribute) return set_member(target.children[0]->name, target.name, value);
  const std::vector<Value> items = iterate(value, context_);
  if (items.size() != target.children.size()) {
    context_.fail(std::to_string(items.size()) + " values are unpacked into " + std::to_string(target.children.size()) +
                  " names");
  }
  for (size_t i = 0; i < items.size(); ++i) bind(*target.children[i], items[i]);
}

Exit Interpreter::run_for(const Statement& statement) {
  return run_loop(statement, evaluate(*statement.expr), scope_, 1);
}

// depth: of loops that call themselves, 1 for the outermost.
Exit Interpreter::run_loop(const Statement& statement, const Value& over, Scope* outer, int depth) {
  std::vector<Value> items = iterate(over, context_);
  Scope* const before = scope_;
  if (statement.condition != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scope_ = open_scope(outer);
      bind(*statement.targets[0], item);
      if (evaluate(*statement.condition).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  context_.loops.emplace_back();
  Loop& loop = context_.loops.back();
  loop.items = std::make_shared<const std::vector<Value>>(std::move(items));
  loop.recursive = statement.recursive ? &statement : nullptr;
  loop.scope = outer;
  loop.depth = depth;
  bool any = false;  // a body has come to its end
  for (const Value& item : *loop.items) {
    scope_ = open_scope(outer);
    scope_->set("loop", &loop, context_);
    bind(*statement.targets[0], item);
    const Exit exit = run_body(statement.body);
    if (exit == Exit::at_break) break;
    any |= exit == Exit::at_end;
    if (loop.index + 1 < loop.items->size()) ++loop.index;
  }
  Exit exit = Exit::at_end;
  if (!any) {
    scope_ = open_scope(outer);
    exit = run_body(statement.orelse);
  }
  scope_ = before;
  return exit;
}

void Interpreter::run_set(const Statement& statement) { bind(*statement.targets[0], evaluate(*statement.expr)); }

void Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;
  for (const ExprPtr& expr : statement.defaults) values.push_back(evaluate(*expr));
  Scope* const outer = std::exchange(scope_, open_scope(scope_));
  for (size_t i = 0; i < values.size(); ++i) bind(*statement.targets[i], values[i]);
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
  if (expr.kind != Expr::Kind::dict) {
    return make_list(std::move(items), context_, expr.kind == Expr::Kind::tuple ? ListKind::tuple : ListKind::list);
  }
  std::vector<std::pair<Value, Value>> pairs;
  for (size_t i = 0; i + 1 < items.size(); i += 2) pairs.emplace_back(std::move(items[i]), std::move(items[i + 1]));
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
    return op == "<=" ? less_or_equal(a, b, context_) : less_or_equal(b, a, context_);
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
  for (size_t i = 1; i < expr.children.size(); ++i) {
    if (expr.children[i]->kind != Expr::Kind::spread) {
      arguments.positional.push_back(evaluate(*expr.children[i]));
      continue;
    }
    for (Value& item : iterate(evaluate(*expr.children[i]->children[0]), context_))
      arguments.positional.push_back(std::move(item));
  }
  const auto add = [&](const std::string& name, Value value) {
    if (arguments.find(name) != nullptr) context_.fail("the argument '" + name + "' is given twice");
    arguments.named.emplace_back(name, std::move(value));
  };
  for (const auto& [name, value] : expr.named) {
    if (name != "**") {
      add(name, evaluate(*value));
      continue;
    }
    const Value names = evaluate(*value);
    if (names.dict() == nullptr) context_.fail(std::string("a ") + names.type_name() + " follows '**'");
    for (const auto& [key, held] : names.dict()->items) {
      if (key.text() == nullptr) context_.fail("a name of the dict after '**' is no string");
      add(key.text()->bytes, held);
    }
  }
  return arguments;
}

// Jinja computes the output of such an expression when it compiles a template, by other rules: what cannot be sliced is
// undefined there, not an error.
bool Interpreter::is_constant(const Expr& expr) {
  constexpr std::string_view kNeedContext[] = {"map", "select", "selectattr", "reject", "rejectattr"};
  if (expr.kind == Expr::Kind::name || expr.kind == Expr::Kind::call || expr.kind == Expr::Kind::spread) return false;
  if (expr.kind == Expr::Kind::filter && std::ranges::find(kNeedContext, expr.name) != std::end(kNeedContext))
    return false;
  const auto constant = [](const ExprPtr& part) { return part == nullptr || is_constant(*part); };
  return std::ranges::all_of(expr.children, constant) &&
         std::ranges::all_of(expr.named, [&](const auto& part) { return constant(part.second); });
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
      const bool sliceable = object.is_sequence() || object.text() != nullptr;
      if (!sliceable && output_ != nullptr && is_constant(*output_)) return Undefined{"a slice"};
      return get_slice(object, start, stop, evaluate_optional(expr.children[3]), context_);
    }
    case Expr::Kind::call:
      return evaluate_call(expr, nullptr);
    case Expr::Kind::spread:
      context_.fail("a '*' stands outside of arguments");
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
    case Expr::Kind::positive:
      return plus(child(0), context_);
    case Expr::Kind::conditional:
      if (child(1).truthy()) return child(0);
      return expr.children[2] == nullptr ? Value(Undefined{"the missing else"}) : child(2);
  }
  return {};
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Expr& callee = *expr.children[0];
  const bool member = callee.kind == Expr::Kind::attribute;
  const Value object = evaluate(member ? *callee.children[0] : callee);
  const bool method = member && has_method(object, callee.name);
  const Value function = method ? Value() : member ? get_attribute(object, callee.name, context_) : object;
  if (member && !method && function.is<Undefined>()) {
    if (object.text() != nullptr) context_.unsupported("the string method '" + callee.name + "'");
    context_.fail(std::string("a ") + object.type_name() + " has no method '" + callee.name + "'");
  }
  Arguments arguments = evaluate_arguments(expr);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  context_.line = expr.line;
  return method ? call_method(object, callee.name, arguments, context_) : call(function, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is<Undefined>()) context_.fail("'" + callee.undefined_name() + "' is undefined and cannot be called");
  if (callee.loop() != nullptr) return call_loop(*callee.loop(), arguments);
  if (callee.names() != nullptr && callee.names()->kind == Namespace::Kind::joiner)
    return call_joiner(*callee.names(), arguments, context_);
  if (callee.callable() == nullptr) context_.fail(std::string("a ") + callee.type_name() + " cannot be called");
  const Callable& callable = *callee.callable();
  if (callable.macro != nullptr) return call_macro(callable, arguments);
  if (!callable.object.is<Undefined>()) return call_method(callable.object, callable.name, arguments, context_);
  return call_function(callable.name, arguments, context_);
}

// loop(items) within a recursive loop: the loop's text for other items.
Value Interpreter::call_loop(Loop& loop, const Arguments& arguments) {
  const Context::Level level(context_);
  if (loop.recursive == nullptr) context_.fail("a loop without 'recursive' is called");
  const BoundArguments in(arguments, "iterable", "the function", "loop", context_);
  Text text;
  Text* const outer = std::exchange(out_, &text);
  run_loop(*loop.recursive, in.value("iterable"), loop.scope, loop.depth + 1);
  out_ = outer;
  return text;
}

// Python's rules, with the names caller, varargs and kwargs for a body that uses them.
void Interpreter::bind_parameters(const Statement& macro, const Arguments& arguments) {
  const std::string title = macro.name == "caller" ? "the call block" : "the macro '" + macro.name + "'";
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.uses_varargs) {
    context_.fail(title + " takes " + std::to_string(count) + " arguments but is given " +
                  std::to_string(arguments.positional.size()));
  }
  std::vector<std::pair<Value, Value>> more;
  const Value* caller = nullptr;
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(macro.parameters.begin(), macro.parameters.end(), name) - macro.parameters.begin();
    const auto position = static_cast<size_t>(at);
    if (position < count && position >= arguments.positional.size()) continue;
    if (name == "caller" && macro.uses_caller && position == count) {
      caller = &value;
    } else if (macro.uses_kwargs && position == count) {
      more.emplace_back(Value(name), value);
    } else {
      context_.fail(title + (position < count ? " is given its argument '" + name + "' twice"
                                              : " has no argument '" + name + "'"));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const Value* given =
        i < arguments.positional.size() ? &arguments.positional[i] : arguments.find(macro.parameters[i]);
    Value value = Undefined{macro.parameters[i]};
    if (given != nullptr) {
      value = *given;
    } else if (macro.defaults[i] != nullptr) {
      value = evaluate(*macro.defaults[i]);
    }
    scope_->set(macro.parameters[i], std::move(value), context_);
  }
  const bool own_caller =
      std::find(macro.parameters.begin(), macro.parameters.end(), "caller") != macro.parameters.end();
  if (macro.uses_caller && !own_caller)
    scope_->set("caller", caller == nullptr ? Value(Undefined{"caller"}) : *caller, context_);
  if (macro.uses_kwargs) scope_->set("kwargs", make_dict(std::move(more), context_), context_);
  if (macro.uses_varargs) {
    const auto first = static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    std::vector<Value> rest(arguments.positional.begin() + first, arguments.positional.end());
    scope_->set("varargs", make_list(std::move(rest), context_, ListKind::tuple), context_);
  }
}

Value Interpreter::call_macro(const Callable& callable, const Arguments& arguments) {
  const Context::Level level(context_);
  Scope* const outer = std::exchange(scope_, open_scope(callable.scope));
  bind_parameters(*callable.macro, arguments);
  Text text = capture(callable.macro->body);
  scope_ = outer;
  return text;
}

}  // namespace

Text interpret(const Body& body, std::vector<std::pair<std::string, Value>> variables, const std::string& place,
               int64_t budget) {
  return Interpreter(place, budget).run(body, std::move(variables));
}

}  // namespace weft::jinja
