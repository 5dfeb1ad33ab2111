#include "base/number.h"

#include <stdlib.h>

#include <charconv>
#include <cmath>

namespace weft {
namespace {

template <class T>
std::string shortest(T number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace

locale_t PlainLocale::get() {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  return plain;
}

PlainLocale::PlainLocale() : before_(uselocale(get())) {}

std::optional<double> parse_double(const std::string& text) {
  // strtod also takes leading spaces, a '+' and hexadecimal digits.
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const bool begins = sign < text.size() && std::string_view("0123456789.iInN").find(text[sign]) != std::string::npos;
  if (!begins || text.find_first_of("xX") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = strtod_l(text.c_str(), &end, PlainLocale::get());
  if (end != text.c_str() + text.size()) return std::nullopt;
  const bool named = std::string_view("iI").find(text[sign]) != std::string::npos;
  if (std::isinf(value) && !named) return std::nullopt;
  return value;
}

std::string number_text(double number) { return shortest(number); }
std::string number_text(float number) { return shortest(number); }

}  // namespace weft
