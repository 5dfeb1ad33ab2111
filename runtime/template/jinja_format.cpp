// Python's two ways to format a text: "%s" % value, and "{}".format(value).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

constexpr int64_t kMaxWidth = 1 << 20, kMaxPrecision = 300;

// "[[fill]align][sign][#][0][width][grouping][.precision][type]"; the flags of "%" set the same fields.
struct Spec {
  Text fill{" "};
  char align = '\0';  // < > ^ =
  char sign = '-';    // + - or a space
  bool alternate = false;
  int64_t width = 0;
  char grouping = '\0';  // , or _
  int64_t precision = -1;
  char type = '\0';
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number at a position, which moves after it; -1 without a number.
int64_t take_number(const std::string& text, size_t& at, Context& context) {
  int64_t value = -1;
  while (at < text.size() && is_digit(text[at])) {
    value = std::max<int64_t>(value, 0) * 10 + (text[at++] - '0');
    if (value > kMaxWidth) context.fail("a format is wider than " + std::to_string(kMaxWidth));
  }
  return value;
}

// ---- Numbers ----

// A number without its sign: the mark of its base, the digits, and what stands after them (decimals, exponent, %).
struct Digits {
  bool negative = false;
  std::string prefix, whole, rest;
};

void group(std::string& digits, char separator, size_t size) {
  for (size_t at = digits.size(); at > size; at -= size) digits.insert(at - size, 1, separator);
}

std::string upper_ascii(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

Digits integer_digits(int64_t value, const Spec& spec) {
  Digits out;
  out.negative = value < 0;
  const uint64_t size = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const char type = spec.type == 'X' ? 'x' : spec.type;
  const int base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  char digits[72];
  out.whole.assign(digits, std::to_chars(digits, digits + sizeof digits, size, base).ptr);
  if (spec.alternate && base != 10) out.prefix = std::string("0") + type;
  if (spec.grouping != '\0') group(out.whole, spec.grouping, base == 10 ? 3 : 4);
  if (spec.type == 'X') {
    out.whole = upper_ascii(out.whole);
    out.prefix = upper_ascii(out.prefix);
  }
  return out;
}

std::string chars_of(double value, std::chars_format format, int64_t precision) {
  char digits[1200];
  return {digits, std::to_chars(digits, digits + sizeof digits, value, format, static_cast<int>(precision)).ptr};
}

// A number without a type: as repr(), or with `precision` digits; always with a decimal or an exponent.
std::string real_digits_as_repr(double value, const Spec& spec) {
  if (spec.precision < 0) return python_float(value);
  const int64_t precision = std::max<int64_t>(spec.precision, 1);
  std::string scientific = chars_of(value, std::chars_format::scientific, precision - 1);
  const size_t mark = scientific.find('e');
  int exponent = 0;
  const char* const begin = scientific.data() + mark + (scientific[mark + 1] == '+' ? 2 : 1);
  std::from_chars(begin, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= precision - (precision > 1 || spec.precision > 0 ? 1 : 0)) {
    std::string digits = scientific.substr(0, mark);
    if (digits.find('.') != std::string::npos) digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    return digits + scientific.substr(mark);
  }
  std::string digits = chars_of(value, std::chars_format::general, precision);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}

Digits real_digits(double value, const Spec& spec, Context& context) {
  Digits out;
  out.negative = std::signbit(value) && !std::isnan(value);
  const double size = std::abs(value);
  if (spec.alternate && std::isfinite(value)) context.unsupported("the flag '#' in the format of a float");
  const char type = spec.type >= 'A' && spec.type <= 'Z' ? static_cast<char>(spec.type + 32) : spec.type;
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (type == '%') digits += '%';
  } else if (type == 'e') {
    digits = chars_of(size, std::chars_format::scientific, precision);
  } else if (type == 'f') {
    digits = chars_of(size, std::chars_format::fixed, precision);
  } else if (type == '%') {
    digits = chars_of(size * 100, std::chars_format::fixed, precision) + "%";
  } else if (type == 'g' || type == 'n') {
    digits = chars_of(size, std::chars_format::general, std::max<int64_t>(precision, 1));
  } else {
    digits = real_digits_as_repr(size, spec);
  }
  if (type != spec.type) digits = upper_ascii(digits);
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  out.whole = digits.substr(0, end);
  out.rest = digits.substr(end);
  if (spec.grouping != '\0') group(out.whole, spec.grouping, 3);
  return out;
}

Text justify(const Text& text, const Spec& spec, char align, Context& context) {
  const auto size = static_cast<int64_t>(length(Value(text), context));
  const int64_t room = std::max<int64_t>(spec.width - size, 0);
  const int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  return pad(text, left, room - left, spec.fill, context);
}

Text number_text(Digits digits, const Spec& spec, Context& context) {
  std::string sign = digits.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += digits.prefix;
  if (spec.align == '=') {
    const size_t used = sign.size() + digits.whole.size() + digits.rest.size();
    const auto width = static_cast<size_t>(spec.width);
    const bool zeros = spec.fill.bytes == "0";
    if (zeros && spec.grouping != '\0' && used < width) {
      const size_t size = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
      std::string plain;
      for (const char c : digits.whole)
        if (c != spec.grouping) plain += c;
      std::string grouped = digits.whole;
      while (sign.size() + grouped.size() + digits.rest.size() < width) {
        context.spend_bytes(grouped.size());
        plain.insert(0, 1, '0');
        group(grouped = plain, spec.grouping, size);
      }
      return Text(sign + grouped + digits.rest);
    }
    Text out(sign);
    out.append(repeat(spec.fill, used < width ? static_cast<int64_t>(width - used) : 0, context));
    out.append(digits.whole + digits.rest);
    return out;
  }
  return justify(Text(sign + digits.whole + digits.rest), spec, spec.align == '\0' ? '>' : spec.align, context);
}

// ---- "%" ----

class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& value, Context& context)
      : format_(format), value_(value), context_(context) {}
  Text run();

 private:
  const Value& next();
  Value keyed();
  void take_flags(Spec& spec);
  int64_t take_size(bool& negative);
  Text convert(const Value& value, Spec spec);
  Text number(const Value& value, Spec spec);
  char peek() const { return at_ < format_.size() ? format_.bytes[at_] : '\0'; }
  [[noreturn]] void fail(const std::string& sentence) const { context_.fail("a format with '%' " + sentence); }

  const Text& format_;
  const Value& value_;
  Context& context_;
  size_t at_ = 0;    // in the format
  size_t used_ = 0;  // values
  bool named_ = false;
};

const Value& PercentFormatter::next() {
  const size_t count = value_.is_tuple() ? value_.list()->items.size() : 1;
  if (used_ >= count) fail("has more places than values");
  ++used_;
  return value_.is_tuple() ? value_.list()->items[used_ - 1] : value_;
}

// The value of "(name)".
Value PercentFormatter::keyed() {
  int depth = 1;
  const size_t begin = ++at_;
  for (; at_ < format_.size() && depth > 0; ++at_) depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
  if (depth > 0) fail("has a name without an end");
  if (value_.dict() == nullptr) fail(std::string("has names but is given a ") + value_.type_name());
  named_ = true;
  const Value key(format_.substr(begin, at_ - 1 - begin));
  const Value* const found = find_item(*value_.dict(), key, context_);
  if (found == nullptr) fail("has no value for the name " + in_quotes(key.text()->bytes));
  return *found;
}

void PercentFormatter::take_flags(Spec& spec) {
  bool zero = false;
  for (; at_ < format_.size() && std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at_) {
    const char flag = peek();
    if (flag == '-') spec.align = '<';
    if (flag == '+') spec.sign = '+';
    if (flag == ' ' && spec.sign == '-') spec.sign = ' ';
    if (flag == '#') spec.alternate = true;
    zero |= flag == '0';
  }
  if (zero && spec.align == '\0') spec.align = '=';
}

// A width or precision: digits, or "*" for the next value.
int64_t PercentFormatter::take_size(bool& negative) {
  if (peek() != '*') return take_number(format_.bytes, at_, context_);
  ++at_;
  const Value& value = next();
  if (!value.is_integral()) fail("takes a whole number for '*'");
  if (std::abs(static_cast<double>(value.integer())) > static_cast<double>(kMaxWidth)) fail("is too wide");
  negative = value.integer() < 0;
  return std::abs(value.integer());
}

Text PercentFormatter::number(const Value& value, Spec spec) {
  if (!value.is_number()) fail(std::string("has a ") + value.type_name() + " for a number");
  if (spec.align == '=') spec.fill = Text("0");
  const bool integer = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (!integer) return number_text(real_digits(value.real(), spec, context_), spec, context_);
  const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
  if (!value.is_integral() && !decimal) fail("has a float for a whole number");
  if (!value.is_integral() && !(std::abs(value.real()) < 9e18))
    context_.unsupported("a whole number of more than 64 bits");
  if (decimal) spec.type = 'd';
  const int64_t whole = value.is_integral() ? value.integer() : static_cast<int64_t>(value.real());
  Digits digits = integer_digits(whole, spec);
  while (static_cast<int64_t>(digits.whole.size()) < spec.precision) digits.whole.insert(0, 1, '0');
  return number_text(std::move(digits), spec, context_);
}

Text PercentFormatter::convert(const Value& value, Spec spec) {
  if (std::string_view("diuxXoeEfFgG").find(spec.type) != std::string_view::npos) return number(value, spec);
  Text text;
  if (spec.type == 'c') {
    if (value.is_integral() && value.integer() >= 0 && value.integer() <= 0x10FFFF)
      append_utf8(text.bytes, static_cast<char32_t>(value.integer()));
    else if (value.text() != nullptr && length(value, context_) == 1)
      text = *value.text();
    else
      fail("takes a character for %c");
    text.taint.resize(text.size());
  } else if (spec.type == 's') {
    text = format_.markup ? escaped(value, context_) : to_text(value, context_);
  } else if (spec.type == 'r') {
    text = to_repr(value, context_);
    if (format_.markup) text = escape_html(text, context_);
  } else if (spec.type == 'a') {
    context_.unsupported("the format %a");
  } else {
    fail("has the unknown type " + in_quotes(std::string(1, spec.type)));
  }
  if (spec.precision >= 0 && spec.type != 'c') {
    const auto offsets = character_offsets(text, context_);
    text = text.substr(0, offsets[std::min(static_cast<size_t>(spec.precision), offsets.size() - 1)]);
  }
  return justify(text, spec, spec.align == '<' ? '<' : '>', context_);
}

Text PercentFormatter::run() {
  Text out;
  context_.spend_bytes(format_.size());
  while (at_ < format_.size()) {
    const size_t mark = std::min(format_.bytes.find('%', at_), format_.size());
    out.append(format_, at_, mark - at_);
    at_ = mark;
    if (at_ == format_.size()) break;
    ++at_;
    context_.spend(1);
    std::optional<Value> value;
    if (peek() == '(') value = keyed();
    Spec spec;
    take_flags(spec);
    bool left = false, none = false;
    spec.width = std::max<int64_t>(take_size(left), 0);
    if (left) spec.align = '<';
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(take_size(none), 0);
      if (none) spec.precision = 0;
      if (spec.precision > kMaxPrecision && std::string_view("sr").find(peek()) == std::string_view::npos)
        context_.unsupported("a precision above " + std::to_string(kMaxPrecision));
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    if (at_ == format_.size()) fail("ends within a place");
    spec.type = format_.bytes[at_++];
    if (spec.type == '%') {
      out.append("%");
      continue;
    }
    const Value given = value ? *value : next();
    out.append(convert(given, spec));
  }
  const size_t count = value_.is_tuple() ? value_.list()->items.size() : 1;
  const bool mapping =
      value_.dict() != nullptr || value_.is_list(ListKind::list, ListKind::range) || value_.is<Undefined>();
  if (used_ < count && !(named_ || mapping)) fail("has fewer places than values");
  out.markup = format_.markup;
  return out;
}

// ---- "{}" ----

Spec parse_spec(const Text& text, Context& context) {
  Spec spec;
  const std::string& bytes = text.bytes;
  constexpr std::string_view kAligns = "<>^=";
  size_t at = 0;
  const auto peek = [&] { return at < bytes.size() ? bytes[at] : '\0'; };
  const size_t first = first_utf8(bytes).size;
  if (first > 0 && first < bytes.size() && kAligns.find(bytes[first]) != std::string_view::npos) {
    spec.fill = text.substr(0, first);
    spec.align = bytes[first];
    at = first + 1;
  } else if (peek() != '\0' && kAligns.find(peek()) != std::string_view::npos) {
    spec.align = bytes[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = bytes[at++];
  if (peek() == 'z') context.unsupported("the option 'z' of a format");
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == '\0') {
      spec.fill = Text("0");
      spec.align = '0';  // "=" for numbers, "<" for texts
    }
    ++at;
  }
  spec.width = std::max<int64_t>(take_number(bytes, at, context), 0);
  if (peek() == ',' || peek() == '_') spec.grouping = bytes[at++];
  if (peek() == '.') {
    ++at;
    spec.precision = take_number(bytes, at, context);
    if (spec.precision < 0) context.fail("a format lacks its precision");
  }
  if (at < bytes.size()) spec.type = bytes[at++];
  if (at < bytes.size()) context.fail("a format ends with " + in_quotes(bytes.substr(at)));
  return spec;
}

[[noreturn]] void unknown_type(const Spec& spec, const Value& value, Context& context) {
  context.fail("a format of the type " + in_quotes(std::string(1, spec.type)) + " is given a " + value.type_name());
}

Text format_string(const Text& text, Spec spec, Context& context) {
  if (spec.type != '\0' && spec.type != 's') unknown_type(spec, Value(text), context);
  if (spec.sign != '-' || spec.alternate || spec.align == '=' || spec.grouping != '\0')
    context.fail("a string is formatted as a number");
  Text out = text;
  if (spec.precision >= 0) {
    const auto offsets = character_offsets(text, context);
    out = text.substr(0, offsets[std::min(static_cast<size_t>(spec.precision), offsets.size() - 1)]);
  }
  return justify(out, spec, spec.align == '\0' || spec.align == '0' ? '<' : spec.align, context);
}

Text format_number(const Value& value, Spec spec, Context& context) {
  if (spec.align == '0') spec.align = '=';
  const bool integer_type = spec.type == '\0' || std::string_view("bcdoxXn").find(spec.type) != std::string_view::npos;
  if (value.is_integral() && integer_type) {
    if (spec.precision >= 0) context.fail("a whole number is formatted with a precision");
    if (spec.type == 'c') context.unsupported("the format type 'c'");
    if (spec.grouping == ',' && spec.type != '\0' && spec.type != 'd') context.fail("',' stands with a base");
    if (spec.grouping != '\0' && spec.type == 'n') context.fail("',' stands with the type 'n'");
    return number_text(integer_digits(value.integer(), spec), spec, context);
  }
  if (spec.precision > kMaxPrecision) context.unsupported("a precision above " + std::to_string(kMaxPrecision));
  if (spec.type != '\0' && std::string_view("eEfFgGn%").find(spec.type) == std::string_view::npos)
    unknown_type(spec, value, context);
  if (spec.grouping != '\0' && spec.type == 'n') context.fail("',' stands with the type 'n'");
  return number_text(real_digits(value.real(), spec, context), spec, context);
}

// format(value, spec)
Text format_value(const Value& value, const Text& spec, Context& context) {
  if (spec.size() == 0) return to_text(value, context);
  if (const Text* const text = value.text()) {
    if (text->markup) context.unsupported("a format for markup");
    return format_string(*text, parse_spec(spec, context), context);
  }
  // A bool is a number where a type says so, and else a text in the format of a number.
  if (value.is<bool>()) {
    const Spec parsed = parse_spec(spec, context);
    return format_number(parsed.type == '\0' ? Value(value.integer()) : value, parsed, context);
  }
  if (value.is_number()) return format_number(value, parse_spec(spec, context), context);
  context.fail(std::string("a ") + value.type_name() + " has no format");
}

class BraceFormatter {
 public:
  BraceFormatter(const Arguments& arguments, bool markup, Context& context)
      : arguments_(arguments), markup_(markup), context_(context) {}
  Text run(const Text& format, int depth);

 private:
  Text field(const Text& field, int depth);
  Value look_up(const Text& name);
  Value first_value(const std::string& name);
  [[noreturn]] void fail(const std::string& sentence) const { context_.fail("format() " + sentence); }

  const Arguments& arguments_;
  bool markup_;
  Context& context_;
  size_t automatic_ = 0;
  bool counted_ = false, numbered_ = false;
};

Value BraceFormatter::first_value(const std::string& name) {
  size_t index = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool number = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
  if (name.empty()) {
    index = automatic_++;
    counted_ = true;
  }
  numbered_ |= number;
  if (counted_ && numbered_) fail("has places with numbers and without");
  if (number || name.empty()) {
    if (index >= arguments_.positional.size()) fail("has more places than values");
    return arguments_.positional[index];
  }
  const Value* const found = arguments_.find(name);
  if (found == nullptr) fail("has no value for the name " + in_quotes(name));
  return *found;
}

// "name.member[item]"
Value BraceFormatter::look_up(const Text& name) {
  const std::string& bytes = name.bytes;
  size_t at = std::min(bytes.find_first_of(".["), bytes.size());
  Value value = first_value(bytes.substr(0, at));
  while (at < bytes.size()) {
    const bool item = bytes[at] == '[';
    if (!item && bytes[at] != '.') fail("has " + in_quotes(bytes.substr(at)) + " after a ']'");
    const size_t end = item ? bytes.find(']', at) : std::min(bytes.find_first_of(".[", at + 1), bytes.size());
    if (end == std::string::npos) fail("lacks a ']'");
    const Text part = name.substr(at + 1, end - at - 1);
    if (part.size() == 0) fail("has an empty name");
    int64_t index = 0;
    const auto parsed = std::from_chars(part.bytes.data(), part.bytes.data() + part.size(), index);
    const bool number = parsed.ec == std::errc() && parsed.ptr == part.bytes.data() + part.size() && index >= 0;
    value = item ? get_item(value, number ? Value(index) : Value(part), context_)
                 : get_attribute(value, part.bytes, context_);
    at = end + (item ? 1 : 0);
  }
  return value;
}

Text BraceFormatter::field(const Text& field, int depth) {
  size_t bracket = 0, end = 0;
  for (; end < field.size(); ++end) {
    const char c = field.bytes[end];
    if (c == '[') bracket = 1;
    if (c == ']') bracket = 0;
    if (bracket == 0 && (c == ':' || c == '!')) break;
  }
  Value value = look_up(field.substr(0, end));
  if (end < field.size() && field.bytes[end] == '!') {
    const char conversion = end + 1 < field.size() ? field.bytes[end + 1] : '\0';
    if (conversion == 'r')
      value = to_repr(value, context_);
    else if (conversion == 's')
      value = to_text(value, context_);
    else if (conversion == 'a')
      context_.unsupported("the conversion '!a'");
    else
      fail("has an unknown conversion");
    end += 2;
    if (end < field.size() && field.bytes[end] != ':') fail("has text after a conversion");
  }
  const Text spec = end < field.size() ? run(field.substr(end + 1, field.size() - end - 1), depth + 1) : Text();
  if (markup_ && spec.size() == 0) return escaped(value, context_);
  Text text = format_value(value, spec, context_);
  return markup_ ? escape_html(text, context_) : text;
}

Text BraceFormatter::run(const Text& format, int depth) {
  if (depth > 1) fail("nests places more than two deep");
  context_.spend_bytes(format.size());
  Text out;
  for (size_t at = 0; at < format.size();) {
    const size_t mark = std::min(format.bytes.find_first_of("{}", at), format.size());
    out.append(format, at, mark - at);
    at = mark;
    if (at == format.size()) break;
    const char brace = format.bytes[at++];
    if (depth == 0 && at < format.size() && format.bytes[at] == brace) {
      out.append(format, at++, 1);
      continue;
    }
    if (brace == '}') fail("has a '}' without a '{'");
    const size_t begin = at;
    for (int open = 1; open > 0; ++at) {
      if (at == format.size()) fail("has a '{' without a '}'");
      open += format.bytes[at] == '{' ? 1 : format.bytes[at] == '}' ? -1 : 0;
    }
    out.append(field(format.substr(begin, at - 1 - begin), depth));
  }
  return out;
}

}  // namespace

Text format_percent(const Text& format, const Value& value, Context& context) {
  return PercentFormatter(format, value, context).run();
}

Text format_braces(const Text& format, const Arguments& arguments, Context& context) {
  Text out = BraceFormatter(arguments, format.markup, context).run(format, 0);
  out.markup = format.markup;
  return out;
}

}  // namespace weft::jinja
