#include "base/number.h"

#include <locale.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <cmath>

namespace weft {

std::optional<double> parse_double(const std::string& text) {
  // strtod also takes leading spaces, a '+' and hexadecimal digits.
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const bool begins = sign < text.size() && std::string_view("0123456789.iInN").find(text[sign]) != std::string::npos;
  if (!begins || text.find_first_of("xX") != std::string::npos) return std::nullopt;
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  const double value = strtod_l(text.c_str(), &end, plain);
  if (end != text.c_str() + text.size()) return std::nullopt;
  const bool named = std::string_view("iI").find(text[sign]) != std::string::npos;
  if (std::isinf(value) && !named) return std::nullopt;
  return value;
}

}  // namespace weft
