// Text to floating point: the same as std::from_chars, if that exists for doubles.
#include "base/number.h"

#include <gtest/gtest.h>

#include <charconv>
#include <clocale>
#include <cmath>
#include <random>

namespace weft {
namespace {

TEST(Number, ReadsTheWholeText) {
  EXPECT_EQ(parse_double("0.1"), 0.1);
  EXPECT_EQ(parse_double("-12.5e-3"), -12.5e-3);
  EXPECT_EQ(parse_double(".5"), 0.5);
  EXPECT_EQ(parse_double("5."), 5.0);
  EXPECT_EQ(parse_double("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(parse_double("1e-400"), 0.0);
  EXPECT_EQ(parse_double("-inf"), -INFINITY);
  EXPECT_TRUE(std::isnan(parse_double("nan").value()));
  for (const char* text : {"", "-", ".", "e5", "+1", " 1", "1 ", "1,5", "0x10", "1e", "1e+", "1e400", "--1", "-+1",
                           "- 1", "1.5.2", "infin", "in", "na"})
    EXPECT_EQ(parse_double(text), std::nullopt) << text;
  EXPECT_EQ(parse_double(std::string("1\0", 2)), std::nullopt);
}

TEST(Number, NoLocaleChangesIt) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  if (!std::setlocale(LC_ALL, "tr_TR.UTF-8")) GTEST_SKIP() << "no locale with a decimal comma here";
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double("1,5"), std::nullopt);
  std::setlocale(LC_ALL, before.c_str());
}

#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
TEST(Number, AgreesWithFromChars) {
  std::mt19937 random(1);
  const std::string_view alphabet = "00123456789..eE+-inf aX";
  uint32_t numbers = 0;
  for (uint32_t i = 0; i < 300000; ++i) {
    std::string text(random() % 9, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    double want = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), want);
    const bool whole = end == text.data() + text.size() && error != std::errc::invalid_argument;
    const std::optional<double> got = parse_double(text);
    if (whole && error == std::errc::result_out_of_range) {
      EXPECT_TRUE(!got || std::abs(*got) < 1e-300) << text;
      continue;
    }
    ASSERT_EQ(got.has_value(), whole) << text;
    if (whole) {
      ++numbers;
      ASSERT_TRUE(*got == want || (std::isnan(*got) && std::isnan(want))) << text;
    }
  }
  EXPECT_GT(numbers, 10000u);
}
#endif

}  // namespace
}  // namespace weft
