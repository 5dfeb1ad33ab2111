// Tests, as jinja2/tests.py of Jinja 3.1 has them.
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

template <typename T>
Value is_type(const Value& input, const BoundArguments&, Context&) {
  return input.is<T>();
}

Value is_integer(const Value& input, const BoundArguments&, Context&) {
  return input.is<int64_t>() || input.long_integer() != nullptr;
}

Value is_boolean(const Value& input, const BoundArguments&, Context&) { return input.is<bool>(); }
template <bool wanted>
Value is_that(const Value& input, const BoundArguments&, Context&) {
  return input.is<bool>() && input.truthy() == wanted;
}
Value is_callable(const Value& input, const BoundArguments&, Context&) {
  const bool joiner = input.names() != nullptr && input.names()->kind == Namespace::Kind::joiner;
  return input.callable() != nullptr || input.loop() != nullptr || input.is<Undefined>() || joiner;
}
Value is_defined(const Value& input, const BoundArguments&, Context&) { return !input.is<Undefined>(); }
Value is_string(const Value& input, const BoundArguments&, Context&) { return input.text() != nullptr; }
Value is_mapping(const Value& input, const BoundArguments&, Context&) { return input.dict() != nullptr; }
Value is_iterable_test(const Value& input, const BoundArguments&, Context&) {
  return is_iterable(input) || input.loop() != nullptr;
}
Value is_sequence_test(const Value& input, const BoundArguments&, Context&) {
  return input.text() != nullptr || input.dict() != nullptr || input.is_sequence() || input.is<Undefined>();
}
Value is_number(const Value& input, const BoundArguments&, Context&) { return input.is_number(); }
Value is_escaped(const Value& input, const BoundArguments&, Context&) {
  return input.text() != nullptr && input.text()->markup;
}

Value is_in(const Value& input, const BoundArguments& in, Context& context) {
  return contains(in.value("seq"), input, context);
}
Value is_equal(const Value& input, const BoundArguments& in, Context& context) {
  return equal(input, in.value("b"), context);
}
Value is_unequal(const Value& input, const BoundArguments& in, Context& context) {
  return !equal(input, in.value("b"), context);
}
Value is_less(const Value& input, const BoundArguments& in, Context& context) {
  return less(input, in.value("b"), context);
}
Value is_greater(const Value& input, const BoundArguments& in, Context& context) {
  return less(in.value("b"), input, context);
}
Value is_less_or_equal(const Value& input, const BoundArguments& in, Context& context) {
  return less_or_equal(input, in.value("b"), context);
}
Value is_greater_or_equal(const Value& input, const BoundArguments& in, Context& context) {
  return less_or_equal(in.value("b"), input, context);
}
Value is_same(const Value& input, const BoundArguments& in, Context&) { return input.same(in.value("other")); }

Value remainder(const Value& input, const Value& by, Context& context) { return arithmetic("%", input, by, context); }
Value is_odd(const Value& input, const BoundArguments&, Context& context) {
  return equal(remainder(input, int64_t{2}, context), int64_t{1}, context);
}
Value is_even(const Value& input, const BoundArguments&, Context& context) {
  return equal(remainder(input, int64_t{2}, context), int64_t{0}, context);
}
Value is_divisible(const Value& input, const BoundArguments& in, Context& context) {
  return equal(remainder(input, in.value("num"), context), int64_t{0}, context);
}

template <Case wanted>
Value is_cased(const Value& input, const BoundArguments&, Context& context) {
  return all_cased(to_text(input, context), wanted, context);
}
template <bool (*knows)(std::string_view)>
Value is_known(const Value& input, const BoundArguments&, Context& context) {
  check_hashable(input, context);
  return input.text() != nullptr && knows(input.text()->bytes);
}

constexpr Builtin kTests[] = {
    {"!=", "b", is_unequal},
    {"<", "b", is_less},
    {"<=", "b", is_less_or_equal},
    {"==", "b", is_equal},
    {">", "b", is_greater},
    {">=", "b", is_greater_or_equal},
    {"boolean", "", is_boolean},
    {"callable", "", is_callable},
    {"defined", "", is_defined},
    {"divisibleby", "num", is_divisible},
    {"eq", "b", is_equal},
    {"equalto", "b", is_equal},
    {"escaped", "", is_escaped},
    {"even", "", is_even},
    {"false", "", is_that<false>},
    {"filter", "", is_known<is_filter>},
    {"float", "", is_type<double>},
    {"ge", "b", is_greater_or_equal},
    {"greaterthan", "b", is_greater},
    {"gt", "b", is_greater},
    {"in", "seq", is_in},
    {"integer", "", is_integer},
    {"iterable", "", is_iterable_test},
    {"le", "b", is_less_or_equal},
    {"lessthan", "b", is_less},
    {"lower", "", is_cased<Case::lower>},
    {"lt", "b", is_less},
    {"mapping", "", is_mapping},
    {"ne", "b", is_unequal},
    {"none", "", is_type<None>},
    {"number", "", is_number},
    {"odd", "", is_odd},
    {"sameas", "other", is_same},
    {"sequence", "", is_sequence_test},
    {"string", "", is_string},
    {"test", "", is_known<is_test>},
    {"true", "", is_that<true>},
    {"undefined", "", is_type<Undefined>},
    {"upper", "", is_cased<Case::upper>},
};

}  // namespace

bool is_test(std::string_view name) { return find_builtin(kTests, name) != nullptr; }

bool apply_test(const std::string& name, const Value& input, const Arguments& arguments, Context& context) {
  context.spend(1);
  const Builtin* const test = find_builtin(kTests, name);
  if (test == nullptr) context.unsupported("the test '" + name + "'");
  return test->run(input, BoundArguments(arguments, test->parameters, "the test", test->name, context), context)
      .truthy();
}

}  // namespace weft::jinja
