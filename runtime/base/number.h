// Floating point and text, in every locale alike. A host program may have set one in which 1.5 is written "1,5".
#pragma once

#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include <optional>
#include <string>

namespace weft {

// The calling thread has the C locale while one of these lives: for libraries that read or write numbers by the locale.
class PlainLocale {
 public:
  PlainLocale();
  PlainLocale(const PlainLocale&) = delete;
  PlainLocale& operator=(const PlainLocale&) = delete;
  ~PlainLocale() { uselocale(before_); }

  // The C locale itself, for functions that take one.
  static locale_t get();

 private:
  locale_t before_;
};

// The whole of the text as std::from_chars reads it: a decimal number, "inf" or "nan", after a '-' or nothing. Nothing
// for other text, and for a number that is too large for a double; one that is too small is 0.
// std::from_chars does this too, but not in libc++ 19 and earlier.
std::optional<double> parse_double(const std::string& text);

// The shortest text that parse_double reads as this number, for example "0.5" or "1e+30"; "inf" and "nan" for those.
std::string number_text(double number);
// The same for a float, which needs fewer digits.
std::string number_text(float number);

}  // namespace weft
