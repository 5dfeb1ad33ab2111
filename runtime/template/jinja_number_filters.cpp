// Filters that make numbers, as jinja2/filters.py of Jinja 3.1 has them.
#include <charconv>
#include <cmath>

#include "base/number.h"
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

bool is_digit_of(char c, int base) {
  const char lowered = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  const int value = c >= '0' && c <= '9' ? c - '0' : lowered >= 'a' && lowered <= 'z' ? lowered - 'a' + 10 : 99;
  return value < base;
}

// Digits without the single underscores that Python allows between them; nothing where they stand otherwise.
std::optional<std::string> without_underscores(std::string_view text, bool leading) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool after = i == 0 ? leading : is_digit_of(text[i - 1], 36);
    if (!after || i + 1 >= text.size() || !is_digit_of(text[i + 1], 36)) return {};
  }
  return out;
}

// Python's int(text, base); nothing where it raises ValueError.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base, Context& context) {
  if (base != 0 && (base < 2 || base > 36)) return {};
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char mark = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : ' ';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  const bool prefixed = marked != 0 && (base == 0 || base == marked);
  if (prefixed) text.remove_prefix(2);
  const bool zeros = text.find_first_not_of("0_") == std::string_view::npos;
  if (base == 0 && !prefixed && text.starts_with('0') && !zeros) return {};
  const int radix = prefixed ? marked : base == 0 ? 10 : static_cast<int>(base);
  const std::optional<std::string> digits = without_underscores(text, prefixed);
  if (!digits || digits->empty()) return {};
  for (const char c : *digits)
    if (!is_digit_of(c, radix)) return {};
  int64_t value = 0;
  const std::string written = (negative ? "-" : "") + *digits;
  const auto parsed = std::from_chars(written.data(), written.data() + written.size(), value, radix);
  if (parsed.ec != std::errc()) context.unsupported("a whole number of more than 64 bits");
  return value;
}

// Python's float(text); nothing where it raises ValueError.
std::optional<double> parse_real(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('-')) return {};
  std::string lowered(text);
  for (char& c : lowered)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  if (lowered == "infinity") lowered = "inf";
  if (lowered != "inf" && lowered != "nan" && lowered.find_first_not_of("0123456789.e+-_") != std::string::npos)
    return {};
  const std::optional<std::string> digits = without_underscores(lowered, false);
  if (!digits) return {};
  std::optional<double> value = parse_double(*digits);
  if (const size_t exponent = digits->find('e'); !value && exponent != std::string::npos) {
    // A number that is too large for a double is infinite.
    const bool whole = parse_double(digits->substr(0, exponent)) && parse_double(digits->substr(0, exponent) + "e0") &&
                       parse_double("0" + digits->substr(exponent));
    if (whole) value = HUGE_VAL;
  }
  if (value && negative) value = -*value;
  return value;
}

std::string stripped(const Value& text, Context& context) {
  return strip(*text.text(), nullptr, Side::both, context).bytes;
}

std::optional<double> as_real(const Value& input, const BoundArguments& in, Context& context) {
  if (input.is<Undefined>()) in.fail("is given the undefined '" + input.undefined_name() + "'");
  if (input.is_number()) return input.real();
  return input.text() == nullptr ? std::nullopt : parse_real(stripped(input, context));
}

Value to_integer(const Value& input, const BoundArguments& in, Context& context) {
  if (input.is_integral()) return input.integer();
  if (input.long_integer() != nullptr) return input;
  const Value* const base = in.find("base");
  if (input.text() != nullptr && (base == nullptr || base->is_integral())) {  // Python's TypeError is caught, too
    const int64_t radix = base == nullptr ? 10 : base->integer();
    if (const auto value = parse_integer(stripped(input, context), radix, context)) return *value;
  }
  const std::optional<double> real = as_real(input, in, context);
  if (input.is<double>() && std::isinf(*real)) in.fail("is given an infinite number");
  if (!real || !std::isfinite(*real)) return in.find("default") == nullptr ? Value(int64_t{0}) : in.value("default");
  if (std::abs(*real) >= 9.2e18) context.unsupported("a whole number of more than 64 bits");
  return static_cast<int64_t>(*real);
}

Value to_real(const Value& input, const BoundArguments& in, Context& context) {
  if (const auto real = as_real(input, in, context)) return *real;
  return in.find("default") == nullptr ? Value(0.0) : in.value("default");
}

// The nearest number with `decimals` decimals, halves to even, as Python's round().
double round_decimals(double value, int64_t decimals, Context& context) {
  if (!std::isfinite(value) || decimals > 330) return value;
  if (decimals < -310) return std::copysign(0.0, value);
  context.spend(64);
  if (decimals >= 0) {
    char digits[700];
    const auto end =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, static_cast<int>(decimals));
    return parse_double(std::string(digits, end.ptr)).value_or(value);
  }
  const double scale = std::pow(10.0, static_cast<double>(-decimals));
  return std::nearbyint(value / scale) * scale;
}

Value round(const Value& input, const BoundArguments& in, Context& context) {
  if (!input.is_number()) in.fail(std::string("is given a ") + input.type_name());
  refuse_long(input, input, context);
  const bool to_whole = in.find("precision") != nullptr && in.value("precision").is<None>();
  const int64_t precision = to_whole ? 0 : in.integer("precision", 0);
  const Value* const given = in.find("method");
  const std::string method = given == nullptr ? "common" : given->text() == nullptr ? "" : given->text()->bytes;
  if (method == "common") {
    if (!input.is_integral()) {
      const double rounded = round_decimals(input.real(), precision, context);
      if (!to_whole) return rounded;
      if (!(std::abs(rounded) < 9.2e18)) context.unsupported("a whole number of more than 64 bits");
      return static_cast<int64_t>(rounded);
    }
    if (precision >= 0) return input.integer();
    if (precision < -15) context.unsupported("rounding a whole number to more than 15 zeros");
    return static_cast<int64_t>(round_decimals(input.real(), precision, context));
  }
  if (method != "ceil" && method != "floor") in.fail("rounds by 'common', 'ceil' or 'floor'");
  if (to_whole) in.wrong_type("precision", in.value("precision"), "a whole number");
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = input.real() * scale;
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!std::isfinite(whole) || scale == 0) in.fail("has a result without end");
  return (whole == 0 ? 0.0 : whole) / scale;
}

Value absolute(const Value& input, const BoundArguments& in, Context& context) {
  if (!input.is_number()) in.fail(std::string("is given a ") + input.type_name());
  refuse_long(input, input, context);
  if (input.is<double>()) return std::abs(input.real());
  return input.integer() < 0 ? negate(input, context) : Value(input.integer());
}

Value file_size(const Value& input, const BoundArguments& in, Context& context) {
  const std::optional<double> parsed = as_real(input, in, context);
  if (!parsed) in.fail(std::string("is given a ") + input.type_name() + " that is no number");
  const double bytes = *parsed;
  const bool binary = in.boolean("binary", false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Text("1 Byte");
  if (bytes < base) return Text(std::to_string(static_cast<int64_t>(bytes)) + " Bytes");
  double unit = base;
  for (const char prefix : std::string_view(binary ? "KMGTPEZY" : "kMGTPEZY")) {
    unit *= base;
    if (bytes >= unit && prefix != 'Y') continue;
    char digits[400];
    const auto end = std::to_chars(digits, digits + sizeof digits, base * bytes / unit, std::chars_format::fixed, 1);
    return Text(std::string(digits, end.ptr) + " " + prefix + (binary ? "iB" : "B"));
  }
  return {};
}

constexpr Builtin kFilters[] = {
    {"abs", "", absolute},
    {"filesizeformat", "binary?", file_size},
    {"float", "default?", to_real},
    {"int", "default? base?", to_integer},
    {"round", "precision? method?", round},
};

}  // namespace

std::span<const Builtin> number_filters() { return kFilters; }

}  // namespace weft::jinja
