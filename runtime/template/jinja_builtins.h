// What a template finds there: filters, tests, methods and functions. All throw through Context::fail, naming the line.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/jinja_value.h"

namespace weft::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at a position or with a name, nullptr if neither is given.
  const Value* find(size_t position, std::string_view name) const;
};

// Reads arguments with their types checked; what: the filter or method, for messages.
class ArgumentReader {
 public:
  ArgumentReader(const Arguments& arguments, std::string what, Context& context)
      : arguments_(arguments), what_(std::move(what)), context_(context) {}
  const Value* find(size_t position, std::string_view name) const { return arguments_.find(position, name); }
  const Value& value(size_t position, std::string_view name) const;
  const Text& text(size_t position, std::string_view name) const;
  const Text* find_text(size_t position, std::string_view name) const;  // nullptr if absent or none
  int64_t integer(size_t position, std::string_view name, int64_t fallback) const;
  bool boolean(size_t position, std::string_view name, bool fallback) const;

 private:
  const Arguments& arguments_;
  std::string what_;
  Context& context_;
};

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments, Context& context);
bool apply_test(const std::string& name, const Value& input, const Arguments& arguments, Context& context);
// A method of a string, dict, list or loop.
Value call_method(const Value& object, const std::string& name, const Arguments& arguments, Context& context);
bool has_method(const Value& object, const std::string& name);
// A function every template has: range, namespace, dict, raise_exception, strftime_now.
Value call_function(const std::string& name, const Arguments& arguments, Context& context);
bool is_function(std::string_view name);

// object.name for a member, undefined if there is none.
Value get_attribute(const Value& object, const std::string& name, Context& context);
// object[key].
Value get_item(const Value& object, const Value& key, Context& context);
// object[start:stop:step], each of them possibly none.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step, Context& context);
// How many characters, items or members.
size_t length(const Value& value, Context& context);
bool contains(const Value& container, const Value& value, Context& context);
// The binary operators + - * / // % ** ~.
Value arithmetic(const std::string& op, const Value& left, const Value& right, Context& context);
Value negate(const Value& value, Context& context);

}  // namespace weft::jinja
