// Numbers by a schema: of any length, and between bounds and by divisors, against integer arithmetic.
#include <random>

#include "grammar/decimal_ranges.h"
#include "grammar_support.h"

namespace weft {
namespace {

using test::byte_matcher;
using test::matches;

struct Case {
  const char* schema;
  std::vector<const char*> yes, no;
};

TEST(GrammarNumbers, NoLimitButTheSchemas) {
  const std::vector<Case> cases = {
      {R"({"type":"integer"})",
       {"2512292042121000001", "-2512292042121000001", "1764230400123456789", "123456789012345678901234567890"},
       {"00", "1.0", "1e5"}},
      {R"({"type":"number"})",
       {"0.12345678901234567890123", "12345678901234567890.5", "6.02214076e+23", "5e-324", "1E400", "-0.0"},
       {"1e", "0x1", "1.e5", "Infinity", "NaN"}},
      // Zod's z.int(), int64, uint64, a bound of 30 digits.
      {R"({"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991})",
       {"9007199254740991", "-9007199254740991", "0", "-1", "900719925474099"},
       {"9007199254740992", "-9007199254740992", "90071992547409910", "-0"}},
      {R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})",
       {"9223372036854775807", "-9223372036854775808", "9223372036854775799"},
       {"9223372036854775808", "-9223372036854775809", "10000000000000000000"}},
      {R"({"type":"integer","minimum":0,"maximum":18446744073709551615})",
       {"18446744073709551615", "0"},
       {"18446744073709551616", "-1"}},
      {R"({"type":"integer","exclusiveMinimum":0,"maximum":123456789012345678901234567890})",
       {"123456789012345678901234567890", "1", "99999999999999999999999999999"},
       {"123456789012345678901234567891", "0"}},
      {R"({"type":"integer","minimum":1e3,"exclusiveMaximum":1.5E+3})", {"1000", "1499"}, {"999", "1500"}},
      {R"({"type":"number","minimum":1E-2,"maximum":12e-2})",
       {"0.01", "0.010", "0.12", "0.1199999999999999999999"},
       {"0.009", "0.1200000000000000000001", "0", "1e-2"}},
      {R"({"type":"number","minimum":0.5,"maximum":2.25})", {"1.5", "0.5", "2.25"}, {"1,5", "21.1", "2.26"}},
      {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4", "210"}},
      {R"({"type":"number","maximum":-0})", {"0", "-1.5"}, {"0.1", "-0"}},
      {R"({"type":"integer","minimum":1.0,"maximum":1.0})", {"1"}, {"1.0", "0", "2"}},
      {R"({"const":1.5})", {"1.5"}, {"1,5"}},
      {R"({"enum":[2512292042121000001,123456789012345678901234567890.5,1E300]})",
       {"2512292042121000001", "123456789012345678901234567890.5", "1E300"},
       {"2.512292042121e18", "2512292042121000000"}},
      {R"({"type":"integer","enum":[1e300,1.0,10.50e1,1.5,1e-1]})", {"1e300", "1.0", "10.50e1"}, {"1.5", "1e-1"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "12345678901234567890120"}, {"1", "-13", "100"}},
      {R"({"type":"integer","multipleOf":2500000})", {"0", "2500000", "-12500000"}, {"250000", "2600000"}},
      {R"({"type":"number","multipleOf":0.01})", {"0.07", "1", "1.10", "-19.990000"}, {"0.001", "1.005"}},
      {R"({"type":"number","multipleOf":0.25,"exclusiveMinimum":-1,"maximum":1})",
       {"-0.75", "0", "0.5", "1", "1.0"},
       {"-1", "0.3", "1.25"}},
      {R"({"type":"integer","multipleOf":2.5})", {"5", "0", "-10"}, {"2", "7"}},
      {R"({"type":"number","multipleOf":1})", {"1.0", "3", "2.000"}, {"1.5"}},
      {R"({"type":"integer","multipleOf":1000,"minimum":-9223372036854775808,"maximum":9223372036854775807})",
       {"9223372036854775000", "-9223372036854775000"},
       {"9223372036854775807", "9223372036854776000"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    Matcher matcher = byte_matcher(Grammar::from_json_schema(c.schema, "s.json"));
    for (const char* text : c.yes) EXPECT_TRUE(matches(matcher, text)) << text;
    for (const char* text : c.no) EXPECT_FALSE(matches(matcher, text)) << text;
  }
}

TEST(GrammarNumbers, DecimalsCompareExactly) {
  const char* const ascending[] = {"-1e1000000", "-1000.5", "-1.0001e3", "-1e3",  "-1e-400", "0",  "1e-400",
                                   "0.0999",     "1e-1",    "1",         "9.999", "1e1",     "11", "1e999999"};
  for (size_t i = 0; i < std::size(ascending); ++i) {
    for (size_t j = 0; j < std::size(ascending); ++j) {
      const int order = compare(parse_decimal(ascending[i]), parse_decimal(ascending[j]));
      EXPECT_EQ((order > 0) - (order < 0), (i > j) - (i < j)) << ascending[i] << " " << ascending[j];
    }
  }
  EXPECT_EQ(compare(parse_decimal("-0.0"), parse_decimal("0e5")), 0);
  EXPECT_EQ(compare(parse_decimal("12.50e1"), parse_decimal("125")), 0);
}

// A number of at most four digits after its point, times 10^4.
__int128 times_10000(const std::string& text) {
  __int128 value = 0;
  size_t after = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') value = value * 10 + (c - '0');
  }
  if (const size_t point = text.find('.'); point != std::string::npos) after = text.size() - point - 1;
  for (; after < 4; ++after) value *= 10;
  return text[0] == '-' ? -value : value;
}

std::string random_number(std::mt19937& random, unsigned most_digits) {
  std::string text;
  const unsigned digits = 1 + random() % most_digits, fraction = random() % 4;
  const auto digit = [&](unsigned least) { text += static_cast<char>('0' + least + random() % (10 - least)); };
  for (unsigned i = 0; i < digits; ++i) digit(i == 0 && digits > 1 ? 1 : 0);
  if (fraction > 0) text += ".";
  for (unsigned i = 0; i < fraction; ++i) digit(0);
  return random() % 2 == 0 && times_10000(text) != 0 ? "-" + text : text;
}

TEST(GrammarNumbers, RandomBoundsAndDivisors) {
  std::mt19937 random(7);
  int within = 0, outside = 0, empty = 0, divided = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const unsigned digits = random() % 3 == 0 ? 28 : 3;
    const std::string low = random_number(random, digits), high = random_number(random, digits),
                      divisor = random_number(random, 1);
    const bool has_low = random() % 4 != 0, has_high = random() % 4 != 0, low_out = random() % 2,
               high_out = random() % 2;
    const bool divides = random() % 3 == 0 && times_10000(divisor) > 0, whole = random() % 2;
    DecimalSet set{{}, {}, {}, whole};
    if (has_low) set.add_least({parse_decimal(low), low_out});
    if (has_high) set.add_most({parse_decimal(high), high_out});
    if (divides) set.divisors.push_back({parse_decimal(divisor), random() % 4 == 0});
    TextAutomaton texts;
    try {
      texts = decimal_texts(set);
    } catch (const Error& error) {  // many digits beside a divisor of many
      ASSERT_TRUE(divides) << error.sentence();
      ++refused;
      continue;
    }
    empty += texts.empty() ? 1 : 0;
    for (int j = 0; j < 40; ++j) {
      // A bound or a random number, and for some the next number.
      std::string text = random() % 3 == 0 ? low : random() % 3 == 0 ? high : random_number(random, digits);
      if (random() % 4 == 0 && text.back() != '9') ++text.back();
      const __int128 value = times_10000(text);
      const bool multiple = value % (divides ? times_10000(divisor) : 1) == 0;
      const bool written = !whole || text.find('.') == std::string::npos;
      const bool wanted = written &&
                          (!has_low || value > times_10000(low) || (value == times_10000(low) && !low_out)) &&
                          (!has_high || value < times_10000(high) || (value == times_10000(high) && !high_out)) &&
                          (!divides || multiple != set.divisors[0].excludes);
      (wanted ? within : outside) += 1;
      divided += wanted && divides ? 1 : 0;
      ASSERT_EQ(texts.accepts(text), wanted)
          << text << (has_low ? (low_out ? " > " : " >= ") + low : "")
          << (has_high ? (high_out ? " < " : " <= ") + high : "") << (divides ? " of " + divisor : "");
      if (divides) {
        ASSERT_EQ(is_multiple(parse_decimal(text), parse_decimal(divisor)), multiple) << text << " " << divisor;
      }
    }
  }
  EXPECT_GT(within, 5000);
  EXPECT_GT(outside, 5000);
  EXPECT_GT(empty, 50);
  EXPECT_GT(divided, 50);
  EXPECT_LT(refused, 300);
}

}  // namespace
}  // namespace weft
