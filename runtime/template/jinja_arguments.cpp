// Arguments and parameters.
#include <algorithm>

#include "base/utf8.h"
#include "template/jinja_builtins.h"

namespace weft::jinja {

const Value* Arguments::find(std::string_view name) const {
  for (const auto& [own, value] : named) {
    if (own == name) return &value;
  }
  return nullptr;
}

BoundArguments::BoundArguments(const Arguments& arguments, std::string_view parameters, std::string_view kind,
                               std::string_view name, Context& context)
    : arguments_(arguments), kind_(kind), name_(name), context_(context) {
  size_t positional_only = 0;
  std::array<bool, std::tuple_size_v<decltype(bound_)>> required{};
  bool any = false;
  for (size_t at = 0; at < parameters.size();) {
    const size_t end = std::min(parameters.find(' ', at), parameters.size());
    std::string_view parameter = parameters.substr(at, end - at);
    at = end + 1;
    if (parameter == "/") {
      positional_only = count_;
    } else if (parameter == "*") {
      any = true;
    } else {
      required[count_] = !parameter.ends_with('?');
      if (!required[count_]) parameter.remove_suffix(1);
      bound_[count_++].name = parameter;
    }
  }
  if (any) return;
  if (arguments.positional.size() > count_) {
    fail("takes " + std::to_string(count_) + " arguments at most but is given " +
         std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound_[i].value = &arguments.positional[i];
  for (const auto& [given, value] : arguments.named) {
    const auto begin = bound_.begin() + static_cast<std::ptrdiff_t>(positional_only),
               end = bound_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto at = std::find_if(begin, end, [&, &wanted = given](const Parameter& own) { return own.name == wanted; });
    if (at == end) fail("has no argument " + in_quotes(given));
    if (at->value != nullptr) fail("is given its argument '" + given + "' twice");
    at->value = &value;
  }
  for (size_t i = 0; i < count_; ++i) {
    if (required[i] && bound_[i].value == nullptr) fail("lacks its argument '" + std::string(bound_[i].name) + "'");
  }
}

void BoundArguments::fail(const std::string& sentence) const {
  context_.fail(std::string(kind_) + " '" + std::string(name_) + "' " + sentence);
}

void BoundArguments::wrong_type(std::string_view parameter, const Value& value, std::string_view wanted) const {
  fail(std::string("has a ") + value.type_name() + " for '" + std::string(parameter) + "', not " + std::string(wanted));
}

const Value* BoundArguments::find(std::string_view name) const {
  for (size_t i = 0; i < count_; ++i) {
    if (bound_[i].name == name) return bound_[i].value;
  }
  return nullptr;
}

const Value* BoundArguments::find_not_none(std::string_view name) const {
  const Value* const found = find(name);
  return found == nullptr || found->is<None>() ? nullptr : found;
}

const Value& BoundArguments::value(std::string_view name) const { return *find(name); }

const Text& BoundArguments::text(std::string_view name) const {
  if (value(name).text() == nullptr) wrong_type(name, value(name), "a string");
  return *value(name).text();
}

const Text* BoundArguments::find_text(std::string_view name) const {
  return find_not_none(name) == nullptr ? nullptr : &text(name);
}

int64_t BoundArguments::integer(std::string_view name) const {
  if (!value(name).is_integral()) wrong_type(name, value(name), "a whole number");
  return value(name).integer();
}

int64_t BoundArguments::integer(std::string_view name, int64_t fallback) const {
  return find(name) == nullptr ? fallback : integer(name);
}

bool BoundArguments::boolean(std::string_view name, bool fallback) const {
  const Value* const found = find(name);
  return found == nullptr ? fallback : found->truthy();
}

const Builtin* find_builtin(std::span<const Builtin> builtins, std::string_view name) {
  const auto at = std::lower_bound(builtins.begin(), builtins.end(), name,
                                   [](const Builtin& builtin, std::string_view other) { return builtin.name < other; });
  return at != builtins.end() && at->name == name ? &*at : nullptr;
}

}  // namespace weft::jinja
