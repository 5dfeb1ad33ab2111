#include "grammar/decimal_ranges.h"

#include <algorithm>

namespace weft {
namespace {

using Expr = GrammarBuilder::Expr;

constexpr size_t kDigits = 15;  // DBL_DIG
constexpr int kMaxExponent = 40;

int compare_whole(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string plus_one(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return "1" + digits;
}

// One less than a number above zero.
std::string minus_one(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

// A range of magnitudes. Nothing is no bound; a least one is always there.
struct Magnitudes {
  DecimalBound least;
  std::optional<DecimalBound> most;
};

class Writer {
 public:
  explicit Writer(GrammarBuilder& builder) : builder_(builder) {}

  // Whole numbers from low to high; nothing if there is none.
  std::optional<Expr> whole(const std::string& low, const std::string& high) {
    if (compare_whole(low, high) > 0) return std::nullopt;
    std::vector<Expr> options;
    for (size_t size = low.size(); size <= high.size(); ++size) {
      const std::string first = size == low.size() ? low : "1" + std::string(size - 1, '0');
      const std::string last = size == high.size() ? high : std::string(size, '9');
      options.push_back(same_length(first, last, 0, true, true));
    }
    return builder_.choice(std::move(options));
  }

  std::optional<Expr> decimals(const Magnitudes& range) {
    const DecimalBound& least = range.least;
    const std::string& low = least.value.whole;
    std::vector<Expr> options;
    const auto add = [&](std::optional<Expr> whole_part, std::optional<Expr> fraction_part) {
      if (whole_part && fraction_part) options.push_back(builder_.sequence({*whole_part, *fraction_part}));
    };
    // Digits of a fraction beside the longest whole part that is compared with a bound.
    const size_t longest = range.most ? std::max(low.size(), range.most->value.whole.size()) : low.size();
    digits_ = std::max({kDigits - std::min(kDigits, longest), least.value.fraction.size(),
                        range.most ? range.most->value.fraction.size() : 0});
    const std::string& high = range.most ? range.most->value.whole : low;
    if (range.most && low == high) {
      add(builder_.literal(low), fraction(&least, &*range.most));
    } else {
      add(builder_.literal(low), fraction(&least, nullptr));
      const std::string end = range.most ? minus_one(high) : std::string(std::max(kDigits, low.size()), '9');
      add(whole(plus_one(low), end), fraction(nullptr, nullptr));
      if (range.most) add(builder_.literal(high), fraction(nullptr, &*range.most));
    }
    if (options.empty()) return std::nullopt;
    return builder_.choice(std::move(options));
  }

 private:
  Expr digit(char low, char high) {
    return builder_.character({{static_cast<char32_t>(low), static_cast<char32_t>(high)}});
  }

  // Numbers of as many digits as both bounds have, from the digit at on. above, below: whether the digits before are
  // those of the bound, so that it still matters.
  Expr same_length(const std::string& low, const std::string& high, size_t at, bool above, bool below) {
    if (at == low.size()) return builder_.empty();
    if (!above && !below) {
      const auto rest = static_cast<uint32_t>(low.size() - at);
      return builder_.repeat(digit('0', '9'), rest, rest);
    }
    const char first = above ? low[at] : '0', last = below ? high[at] : '9';
    const auto option = [&](char from, char to, bool still_above, bool still_below) {
      return builder_.sequence({digit(from, to), same_length(low, high, at + 1, still_above, still_below)});
    };
    if (first == last) return option(first, last, above, below);
    std::vector<Expr> options;
    char from = first, to = last;
    if (above) {
      options.push_back(option(from, from, true, false));
      ++from;
    }
    if (below) {
      options.push_back(option(to, to, false, true));
      --to;
    }
    if (from <= to) options.push_back(option(from, to, false, false));
    return builder_.choice(std::move(options));
  }

  // "" or "." and digits, for what follows the whole part of a bound. A null bound is no bound.
  std::optional<Expr> fraction(const DecimalBound* least, const DecimalBound* most) {
    std::vector<Expr> options;
    if (may_stop(0, least, most)) options.push_back(builder_.empty());
    if (const auto more = digits_ > 0 ? fraction_digits(0, least, most) : std::nullopt) {
      options.push_back(builder_.sequence({builder_.literal("."), *more}));
    }
    if (options.empty()) return std::nullopt;
    return builder_.choice(std::move(options));
  }

  static char bound_digit(const DecimalBound& bound, size_t at) {
    return at < bound.value.fraction.size() ? bound.value.fraction[at] : '0';
  }

  // Whether a fraction may end after `at` digits that are those of the bounds.
  static bool may_stop(size_t at, const DecimalBound* least, const DecimalBound* most) {
    // Zeros follow. A bound's fraction has no zeros at its end.
    const auto equal = [&](const DecimalBound* bound) { return at >= bound->value.fraction.size(); };
    if (least != nullptr && (!equal(least) || least->exclusive)) return false;
    return most == nullptr || !equal(most) || !most->exclusive;
  }

  // One digit or more from the digit `at` on, those before it being those of the bounds.
  std::optional<Expr> fraction_digits(size_t at, const DecimalBound* least, const DecimalBound* most) {
    if (least == nullptr && most == nullptr)
      return builder_.repeat(digit('0', '9'), 1, static_cast<uint32_t>(digits_ - at));
    const char first = least != nullptr ? bound_digit(*least, at) : '0',
               last = most != nullptr ? bound_digit(*most, at) : '9';
    std::vector<Expr> options;
    const auto add = [&](char from, char to, const DecimalBound* still_least, const DecimalBound* still_most) {
      std::vector<Expr> rests;
      if (may_stop(at + 1, still_least, still_most)) rests.push_back(builder_.empty());
      if (const auto more = at + 1 < digits_ ? fraction_digits(at + 1, still_least, still_most) : std::nullopt)
        rests.push_back(*more);
      if (!rests.empty()) options.push_back(builder_.sequence({digit(from, to), builder_.choice(std::move(rests))}));
    };
    if (first == last && least != nullptr && most != nullptr) {
      add(first, last, least, most);
    } else if (first <= last) {
      char from = first, to = last;
      if (least != nullptr) {
        add(from, from, least, nullptr);
        ++from;
      }
      if (most != nullptr) {
        add(to, to, nullptr, most);
        --to;
      }
      if (from <= to) add(from, to, nullptr, nullptr);
    }
    if (options.empty()) return std::nullopt;
    return builder_.choice(std::move(options));
  }

  GrammarBuilder& builder_;
  size_t digits_ = 0;  // of a fraction, at most
};

std::optional<Magnitudes> nonnegative(const DecimalRange& range) {
  if (range.most && range.most->value.negative) return std::nullopt;
  Magnitudes made;
  if (range.least && !range.least->value.negative) made.least = *range.least;
  made.most = range.most;
  return made;
}

std::optional<Magnitudes> negative(const DecimalRange& range) {
  if (range.least && !range.least->value.negative) return std::nullopt;
  Magnitudes made{{{}, true}, {}};  // below zero
  if (range.most && range.most->value.negative)
    made.least = {{false, range.most->value.whole, range.most->value.fraction}, range.most->exclusive};
  if (range.least) made.most = {{false, range.least->value.whole, range.least->value.fraction}, range.least->exclusive};
  return made;
}

// The whole numbers among magnitudes.
std::optional<Expr> whole_magnitudes(Writer& writer, const Magnitudes& range) {
  const Decimal& least = range.least.value;
  const bool past_least = !least.fraction.empty() || range.least.exclusive;
  const std::string low = past_least ? plus_one(least.whole) : least.whole;
  if (!range.most) return writer.whole(low, std::string(std::max(kDigits, low.size()), '9'));
  const Decimal& most = range.most->value;
  const bool before_most = most.fraction.empty() && range.most->exclusive;
  if (before_most && most.whole == "0") return std::nullopt;
  return writer.whole(low, before_most ? minus_one(most.whole) : most.whole);
}

template <typename Write>
std::optional<Expr> with_sign(GrammarBuilder& builder, const DecimalRange& range, Write write) {
  std::vector<Expr> options;
  const auto above = nonnegative(range), below = negative(range);
  if (const auto made = above ? write(*above) : std::nullopt) options.push_back(*made);
  if (const auto made = below ? write(*below) : std::nullopt)
    options.push_back(builder.sequence({builder.literal("-"), *made}));
  if (options.empty()) return std::nullopt;
  return builder.choice(std::move(options));
}

}  // namespace

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int whole = compare_whole(a.whole, b.whole);
  const int magnitude = whole != 0 ? whole : a.fraction.compare(b.fraction);
  return a.negative ? -magnitude : magnitude;
}

std::optional<Decimal> parse_decimal(std::string_view number) {
  Decimal made;
  made.negative = number.starts_with('-');
  if (made.negative) number.remove_prefix(1);
  int exponent = 0;
  if (const size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    const bool down = digits.starts_with('-');
    if (down || digits.starts_with('+')) digits.remove_prefix(1);
    for (const char c : digits) exponent = std::min(exponent * 10 + (c - '0'), kMaxExponent + 1);
    if (exponent > kMaxExponent) return std::nullopt;
    if (down) exponent = -exponent;
    number = number.substr(0, e);
  }
  std::string digits;
  size_t point = std::min(number.find('.'), number.size());
  for (const char c : number) {
    if (c != '.') digits += c;
  }
  // Zeros on both sides make room for the exponent to move the point.
  const std::string zeros(kMaxExponent, '0');
  digits = zeros + digits + zeros;
  point += static_cast<size_t>(kMaxExponent + exponent);
  made.whole = digits.substr(0, point);
  made.fraction = digits.substr(point);
  made.whole.erase(0, std::min(made.whole.find_first_not_of('0'), made.whole.size()));
  made.fraction.erase(made.fraction.find_last_not_of('0') + 1);
  const size_t significant =
      made.whole.empty() ? made.fraction.size() - std::min(made.fraction.find_first_not_of('0'), made.fraction.size())
                         : made.whole.size() + made.fraction.size();
  if (significant > kDigits) return std::nullopt;
  if (made.whole.empty()) made.whole = "0";
  if (made.is_zero()) made.negative = false;
  return made;
}

std::optional<Expr> whole_numbers(GrammarBuilder& builder, const DecimalRange& range) {
  Writer writer(builder);
  return with_sign(builder, range, [&](const Magnitudes& part) { return whole_magnitudes(writer, part); });
}

std::optional<Expr> decimal_numbers(GrammarBuilder& builder, const DecimalRange& range) {
  if (range.least && range.most && compare(range.least->value, range.most->value) > 0) return std::nullopt;
  Writer writer(builder);
  return with_sign(builder, range, [&](const Magnitudes& part) { return writer.decimals(part); });
}

}  // namespace weft
