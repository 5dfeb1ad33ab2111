// Numbers between bounds, as grammars of their decimal digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/grammar_builder.h"

namespace weft {

// A decimal number: its digits, without a leading zero in whole (but "0") and without a trailing one in fraction.
struct Decimal {
  bool negative = false;  // never for zero
  std::string whole = "0", fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// Below zero, zero, or above zero as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);

// The value of a JSON number; nothing if it takes more than 15 significant digits or an exponent beyond 40. A double
// tells numbers of 15 digits apart (DBL_DIG), so what compares so here compares so for whoever reads the text.
std::optional<Decimal> parse_decimal(std::string_view number);

struct DecimalBound {
  Decimal value;
  bool exclusive = false;
};
struct DecimalRange {
  std::optional<DecimalBound> least, most;
};

// Whole numbers in a range, as -?(0|[1-9][0-9]*) without "-0"; at most 15 digits where there is no bound. Nothing if
// no number is in the range.
std::optional<GrammarBuilder::Expr> whole_numbers(GrammarBuilder& builder, const DecimalRange& range);

// Numbers in a range, without exponents and without "-0"; at most 15 digits before the point where there is no bound,
// and as many after it. Nothing if no number is in the range.
std::optional<GrammarBuilder::Expr> decimal_numbers(GrammarBuilder& builder, const DecimalRange& range);

}  // namespace weft
