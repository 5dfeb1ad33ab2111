// Values of the Jinja interpreter: Python's, as far as chat templates use them. A string knows of every byte whether it
// came out of a message's content ("taint"), and every operation keeps that knowledge.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/depth.h"
#include "base/wanted.h"

namespace weft::jinja {

struct Text {
  std::string bytes;
  std::string taint;    // as long as bytes: 1 where the byte came out of a message's content, else 0
  bool markup = false;  // markupsafe.Markup: made by the filters safe and escape

  Text() = default;
  explicit Text(std::string text, bool tainted = false)
      : bytes(std::move(text)), taint(bytes.size(), tainted ? 1 : 0) {}
  size_t size() const { return bytes.size(); }
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t length) {
    bytes.append(other.bytes, begin, length);
    taint.append(other.taint, begin, length);
  }
  void append(std::string_view text, bool tainted = false) {
    bytes.append(text);
    taint.append(text.size(), tainted ? 1 : 0);
  }
  Text substr(size_t begin, size_t length) const {
    Text out;
    out.append(*this, begin, length);
    out.markup = markup;
    return out;
  }
};

class Value;
struct List;
struct Dict;
struct Statement;
struct Scope;

// Objects that a template can change: namespace(), cycler(), joiner(). Owned by the Context.
struct Namespace;

// The variable "loop". Owned by the Context.
struct Loop;

// A macro, a function every template has, or a method of an object.
struct Callable;

// Python's types of ordered values. A group is a tuple that groupby made; an iterator gives each item once.
enum class ListKind { list, tuple, group, range, keys, values, items, iterator };

struct Undefined {
  std::string name;
};
struct None {};
// A whole number that has more than 64 bits. It can be shown and compared; arithmetic with it is refused.
struct LongInteger {
  std::string digits;  // as Python spells it
};

class Value {
 public:
  using Kind = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const LongInteger>,
                            std::shared_ptr<const Text>, std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            Namespace*, Loop*, std::shared_ptr<const Callable>>;

  Value() = default;  // undefined
  Value(bool value) : kind_(value) {}
  Value(int64_t value) : kind_(value) {}
  Value(double value) : kind_(value) {}
  Value(LongInteger value) : kind_(std::make_shared<const LongInteger>(std::move(value))) {}
  Value(None value) : kind_(value) {}
  Value(Undefined value) : kind_(std::move(value)) {}
  Value(Text text) : kind_(std::make_shared<const Text>(std::move(text))) {}
  explicit Value(std::string text) : Value(Text(std::move(text))) {}
  Value(Namespace* value) : kind_(value) {}
  Value(Loop* value) : kind_(value) {}
  Value(Callable value);
  Value(const char*) = delete;  // would be a bool
  static Value list(List list);
  static Value list(std::vector<Value> items);
  static Value dict(std::vector<std::pair<Value, Value>> items);

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(kind_);
  }
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>() || long_integer() != nullptr; }
  bool is_integral() const { return is<bool>() || is<int64_t>(); }
  // The contents, or nullptr if it is something else.
  const Text* text() const { return pointer<Text>(); }
  const LongInteger* long_integer() const { return pointer<LongInteger>(); }
  const List* list() const { return pointer<List>(); }
  const Dict* dict() const { return pointer<Dict>(); }
  const Callable* callable() const { return pointer<Callable>(); }
  Namespace* names() const { return is<Namespace*>() ? std::get<Namespace*>(kind_) : nullptr; }
  Loop* loop() const { return is<Loop*>() ? std::get<Loop*>(kind_) : nullptr; }
  // True for a list of one of these kinds.
  template <typename... Kinds>
  bool is_list(Kinds... kinds) const;
  bool is_tuple() const { return is_list(ListKind::tuple, ListKind::group); }
  // True for what has items at positions: list, tuple, range.
  bool is_sequence() const { return is_list(ListKind::list, ListKind::tuple, ListKind::group, ListKind::range); }
  // Python's "is", as far as values are kept apart here.
  bool same(const Value& other) const;
  int64_t integer() const;  // of an integral value
  double real() const;      // of a number
  const std::string& undefined_name() const { return std::get<Undefined>(kind_).name; }

  bool truthy() const;
  // Python's name of the type, for messages.
  const char* type_name() const;
  // How deep containers nest in it: 0 for what is none.
  int depth() const;

 private:
  template <typename T>
  const T* pointer() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&kind_);
    return held == nullptr ? nullptr : held->get();
  }
  Kind kind_;
};

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::list;
  int depth = 1;
  int64_t start = 0, stop = 0, step = 1;  // of a range
  mutable size_t taken = 0;               // items that an iterator has given
  std::exception_ptr failure;             // an iterator throws it after its last item
};

template <typename... Kinds>
bool Value::is_list(Kinds... kinds) const {
  return list() != nullptr && ((list()->kind == kinds) || ...);
}

struct Callable {
  const Statement* macro = nullptr;
  Scope* scope = nullptr;  // that the macro was defined in
  std::string name;        // if macro is null
  Value object;            // undefined for a function
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order of insertion
  int depth = 1;
  const Value* find(std::string_view key) const;
};

struct Namespace {
  enum class Kind { names, cycler, joiner };
  Kind kind = Kind::names;
  std::vector<std::pair<std::string, Value>> members;
  std::vector<Value> values;  // of a cycler; a joiner's separator
  size_t at = 0;              // in values; calls of a joiner
};

struct Loop {
  std::shared_ptr<const std::vector<Value>> items;
  size_t index = 0;
  Value last_changed;
  bool has_changed = false;              // loop.changed() has been called
  const Statement* recursive = nullptr;  // the statement, if the loop may call itself
  Scope* scope = nullptr;                // around the statement
  int depth = 1;
};

// Context of every operation: where it stands, for errors, and how much work is left, against templates that never end.
class Context {
 public:
  Context(std::string place, int64_t budget) : place_(std::move(place)), budget_(budget) {}

  uint32_t line = 1;
  // Owned here, so that what a template builds cannot own itself in a circle.
  std::deque<Namespace> namespaces;
  std::deque<Loop> loops;

  // One level of statements, expressions, macros and filters within one another; throws Error(bad_file) where there are
  // too many.
  struct Level : Depth::Level {
    explicit Level(Context& context)
        : Depth::Level(context.depth_, [&] { context.fail("the chat template calls itself too deeply"); }) {}
  };

  // The template cannot go on: throws Error(bad_file) naming the line.
  [[noreturn]] void fail(const std::string& sentence) const;
  // Throws Error(unsupported) naming the line.
  [[noreturn]] void unsupported(const std::string& what) const;
  const std::string& place() const { return place_; }
  // Work about to be done, in steps of an operation or a dozen bytes.
  void spend(size_t steps);
  void spend_bytes(size_t bytes) { spend(1 + bytes / 16); }
  // True after a template has taken more than it may.
  bool is_spent() const { return budget_ < 0; }

 private:
  static constexpr int kMaxDepth = 256;
  std::string place_;
  int64_t budget_;
  WantedRounds rounds_;
  Depth depth_{kMaxDepth};
};

// Python's ==.
bool equal(const Value& a, const Value& b, Context& context);
// Python's < for numbers, strings, lists and tuples; fails for others.
bool less(const Value& a, const Value& b, Context& context);
bool less_or_equal(const Value& a, const Value& b, Context& context);
// Python's str() and repr().
Text to_text(const Value& value, Context& context);
Text to_repr(const Value& value, Context& context);

struct JsonStyle {
  std::optional<Text> indent;  // of a level; none: on one line
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// Python's json.dumps.
Text to_json(const Value& value, const JsonStyle& style, Context& context);

// Items that a for loop or a filter goes through: a list's items, a string's characters, a dict's keys, nothing for
// undefined. Takes all that is left of an iterator.
std::vector<Value> iterate(const Value& value, Context& context);
// A list or dict no deeper than is safe to walk.
Value make_list(List list, Context& context);
Value make_list(std::vector<Value> items, Context& context, ListKind kind = ListKind::list);
Value make_dict(std::vector<std::pair<Value, Value>> items, Context& context);
// Fails unless Python could use the value as a dict's key.
void check_hashable(const Value& value, Context& context);

}  // namespace weft::jinja
