// Sets of numbers by bounds and divisors, as automata of their decimal digits. All arithmetic is exact, on digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/text_automaton.h"

namespace weft {

// A decimal number: 0.DIGITS x 10^point.
struct Decimal {
  bool negative = false;  // never for zero
  std::string digits;     // begins and ends with no zero; empty for zero
  int64_t point = 0;      // 0 for zero

  bool is_zero() const { return digits.empty(); }
  bool is_whole() const { return fraction() == 0; }
  // Digits after the decimal point.
  int64_t fraction() const { return std::max<int64_t>(0, static_cast<int64_t>(digits.size()) - point); }
  // The digit that counts 10^place.
  char digit(int64_t place) const {
    const int64_t index = point - 1 - place;
    return index >= 0 && index < static_cast<int64_t>(digits.size()) ? digits[static_cast<size_t>(index)] : '0';
  }
};

// The value of a JSON number. Exponents beyond 10^9 count as that.
Decimal parse_decimal(std::string_view number);

// Below zero, zero, or above zero as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);

// True if the value is a whole number times the divisor, which is above zero. Throws as decimal_texts() does.
bool is_multiple(const Decimal& value, const Decimal& divisor);

struct DecimalBound {
  Decimal value;
  bool exclusive = false;
};
struct DecimalDivisor {
  Decimal value;          // above zero
  bool excludes = false;  // its multiples are not in the set, instead of the others
};
struct DecimalSet {
  std::optional<DecimalBound> least, most;
  std::vector<DecimalDivisor> divisors;
  bool whole = false;  // written without a point

  // Narrows the set.
  void add_least(const DecimalBound& bound);
  void add_most(const DecimalBound& bound);
};

// The numbers of the set, as -?(0|[1-9][0-9]*)(\.[0-9]+)? without "-0". Throws Error(unsupported) without a place if
// the bounds have more than 1,000 digits, if a divisor has more than 9, or if the automaton is too large.
TextAutomaton decimal_texts(const DecimalSet& set);

}  // namespace weft
