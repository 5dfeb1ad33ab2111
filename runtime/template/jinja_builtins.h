// Everything a template can use: filters, tests, methods and functions, each with its parameters. All throw through
// Context::fail, naming the line.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/jinja_value.h"

namespace weft::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const;  // among the named, nullptr if it is not there
};

// Arguments bound to parameters as Python binds them. An argument too many, one with an unknown name, one given twice
// or a required one that is missing fails with its name.
class BoundArguments {
 public:
  // parameters: names with a space between; "?" after a name: optional. "/": the names before it cannot be used in a
  // call. "*" at the end: any further arguments, which all() holds. kind and name: for messages.
  BoundArguments(const Arguments& arguments, std::string_view parameters, std::string_view kind, std::string_view name,
                 Context& context);

  // The argument with this name, nullptr if it is not given.
  const Value* find(std::string_view name) const;
  const Value* find_not_none(std::string_view name) const;  // nullptr for none, too
  const Value& value(std::string_view name) const;
  // Fail for other types.
  const Text& text(std::string_view name) const;
  const Text* find_text(std::string_view name) const;  // nullptr if absent or none
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  bool boolean(std::string_view name, bool fallback) const;
  const Arguments& all() const { return arguments_; }
  [[noreturn]] void fail(const std::string& sentence) const;
  [[noreturn]] void wrong_type(std::string_view parameter, const Value& value, std::string_view wanted) const;

 private:
  struct Parameter {
    std::string_view name;
    const Value* value = nullptr;
  };

  const Arguments& arguments_;
  std::string_view kind_, name_;
  Context& context_;
  std::array<Parameter, 6> bound_;
  size_t count_ = 0;
};

// A filter, test or method. input: the value before the "|", "is" or "."
struct Builtin {
  std::string_view name, parameters;
  Value (*run)(const Value& input, const BoundArguments& in, Context& context);
};
const Builtin* find_builtin(std::span<const Builtin> builtins, std::string_view name);

std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> string_methods();

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments, Context& context);
bool is_filter(std::string_view name);
bool apply_test(const std::string& name, const Value& input, const Arguments& arguments, Context& context);
bool is_test(std::string_view name);
// A method of a string, dict, list, namespace or loop.
Value call_method(const Value& object, const std::string& name, const Arguments& arguments, Context& context);
bool has_method(const Value& object, std::string_view name);
// True for a name that Python's type has, but Weft does not know.
bool is_foreign_method(const Value& object, std::string_view name);
// A function every template has: range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
Value call_function(const std::string& name, const Arguments& arguments, Context& context);
bool is_function(std::string_view name);
// The separator, or nothing at the first call.
Value call_joiner(Namespace& joiner, const Arguments& arguments, Context& context);

// object.name: a method or a member, undefined if there is neither.
Value get_attribute(const Value& object, const std::string& name, Context& context);
// object[key].
Value get_item(const Value& object, const Value& key, Context& context);
// The value of a dict's key, nullptr if it is not there.
const Value* find_item(const Dict& dict, const Value& key, Context& context);
// object[start:stop:step], each of them possibly none.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step, Context& context);
// How many characters, items or members.
size_t length(const Value& value, Context& context);
// True for what iterate() goes through.
bool is_iterable(const Value& value);
bool contains(const Value& container, const Value& value, Context& context);
// The binary operators + - * / // % ** ~.
// Refuses a LongInteger.
void refuse_long(const Value& left, const Value& right, Context& context);
Value arithmetic(const std::string& op, const Value& left, const Value& right, Context& context);
Value negate(const Value& value, Context& context);
Value plus(const Value& value, Context& context);  // +value

// format % value, and format.format(arguments).
Text format_percent(const Text& format, const Value& value, Context& context);
Text format_braces(const Text& format, const Arguments& arguments, Context& context);

}  // namespace weft::jinja
