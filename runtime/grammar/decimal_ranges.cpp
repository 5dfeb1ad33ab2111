#include "grammar/decimal_ranges.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"

namespace weft {
namespace {

constexpr size_t kMaxStates = 1 << 14;
constexpr int64_t kMaxDigits = 1000, kMaxExponent = 1000000000;

// The order of two magnitudes.
int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) return static_cast<int>(!a.is_zero()) - static_cast<int>(!b.is_zero());
  if (a.point != b.point) return a.point < b.point ? -1 : 1;
  return a.digits.compare(b.digits);
}

// A divisor's multiples are the whole numbers times 10^-scale that end with `zeros` zeros and whose other digits are a
// multiple of `number`, which is no multiple of 10.
struct Divisor {
  uint32_t number = 1;
  int64_t zeros = 0, scale = 0;
  bool excludes = false;
};

Divisor make_divisor(const DecimalDivisor& given) {
  const Decimal& value = given.value;
  if (value.digits.size() > 9 || value.point > kMaxDigits || value.fraction() > kMaxDigits) {
    throw Error(Code::unsupported, "divisors with more than 9 digits or far from 1 are not supported");
  }
  const int64_t exponent = value.point - static_cast<int64_t>(value.digits.size());
  return {static_cast<uint32_t>(std::stoul(value.digits)), std::max<int64_t>(0, exponent), value.fraction(),
          given.excludes};
}

// Bounds of magnitudes: of the set's numbers with one sign.
struct Magnitudes {
  DecimalBound least;
  std::optional<DecimalBound> most;
};

std::optional<Magnitudes> magnitudes(const DecimalSet& set, bool negative) {
  const auto& nearer = negative ? set.most : set.least;  // to zero, if it is on this side of it
  const auto& farther = negative ? set.least : set.most;
  if (farther && farther->value.negative != negative) return std::nullopt;
  Magnitudes made{{{}, negative}, farther};  // zero has no sign
  if (nearer && nearer->value.negative == negative) made.least = *nearer;
  made.least.value.negative = false;
  if (made.most) made.most->value.negative = false;
  return made;
}

// How the number that is being read compares with a bound, so far.
enum Order : int8_t { kLess = -1, kEqual = 0, kGreater = 1 };

struct DivisorState {
  uint32_t rest = 0;    // of the digits before the last `zeros` zeros
  uint32_t zeros = 0;   // at the end
  bool begun = false;   // a digit other than zero was read
  bool failed = false;  // no multiple, whatever follows
  auto operator<=>(const DivisorState&) const = default;
};

enum class Phase : uint8_t { begin, zero, whole, point, fraction };

struct Reading {
  Phase phase = Phase::begin;
  uint32_t count = 0;  // digits of the part that is being read, at most as many as matter and one more
  Order least = kEqual, most = kEqual;
  std::vector<DivisorState> divisors;
  auto operator<=>(const Reading&) const = default;
};

class Builder {
 public:
  Builder(const Magnitudes& range, std::vector<Divisor> divisors, bool whole)
      : range_(range), divisors_(std::move(divisors)), whole_only_(whole) {
    const auto see = [&](const Decimal& value) {
      if (value.point > kMaxDigits || value.fraction() > kMaxDigits) {
        throw Error(Code::unsupported,
                    "bounds of more than " + std::to_string(kMaxDigits) + " digits are not supported");
      }
      longest_ = std::max(longest_, value.point);
      deepest_ = std::max(deepest_, value.fraction());
    };
    see(range_.least.value);
    if (range_.most) see(range_.most->value);
    for (const Divisor& divisor : divisors_) deepest_ = std::max(deepest_, divisor.scale);
  }

  TextAutomaton build() {
    number(Reading{Phase::begin, 0, kEqual, range_.most ? kEqual : kLess, std::vector<DivisorState>(divisors_.size())});
    TextAutomaton made;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Reading reading = *order_[i];
      TextAutomaton::State state{{}, may_end(reading)};
      std::map<uint32_t, std::vector<CodePointRange>> targets;
      for (char32_t c : std::u32string_view(U"0123456789.")) {
        if (const auto after = next(reading, static_cast<char>(c))) targets[number(*after)].push_back({c, c});
      }
      for (auto& [target, ranges] : targets) state.edges.push_back({CodePointSet(std::move(ranges)), target});
      made.states.push_back(std::move(state));
    }
    return trimmed(made);
  }

 private:
  uint32_t number(const Reading& reading) {
    const auto [slot, is_new] = numbers_.try_emplace(reading, static_cast<uint32_t>(order_.size()));
    if (is_new) {
      order_.push_back(&slot->first);
      check_text_states(order_.size(), kMaxStates);
    }
    return slot->second;
  }

  std::optional<Reading> next(Reading reading, char c) const {
    if (c == '.') {
      const bool may = !whole_only_ && (reading.phase == Phase::zero || reading.phase == Phase::whole);
      if (!may) return std::nullopt;
      reading.least = after_whole(reading, reading.least, &range_.least);
      reading.most = after_whole(reading, reading.most, range_.most ? &*range_.most : nullptr);
      reading.phase = Phase::point;
      reading.count = 0;
      return reading;
    }
    const bool in_fraction = reading.phase == Phase::point || reading.phase == Phase::fraction;
    if (reading.phase == Phase::zero) return std::nullopt;
    const auto most_count = static_cast<uint32_t>(in_fraction ? deepest_ : std::max<int64_t>(1, longest_));
    const int64_t place = in_fraction ? -static_cast<int64_t>(reading.count) - 1 : static_cast<int64_t>(reading.count);
    reading.least = after_digit(reading.least, range_.least.value, c, place, in_fraction);
    if (range_.most) reading.most = after_digit(reading.most, range_.most->value, c, place, in_fraction);
    for (size_t i = 0; i < divisors_.size(); ++i) {
      add_digit(divisors_[i], reading.divisors[i], c, in_fraction ? reading.count + 1 : 0);
    }
    if (in_fraction) {
      reading.phase = Phase::fraction;
    } else {
      reading.phase = reading.phase == Phase::begin && c == '0' ? Phase::zero : Phase::whole;
    }
    reading.count = std::min(reading.count + 1, most_count + 1);
    return reading;
  }

  // position: of the digit, from the front of a whole part, or its place in a fraction. A whole part is compared as if
  // it had as many digits as the bound's.
  static Order after_digit(Order before, const Decimal& bound, char c, int64_t position, bool in_fraction) {
    if (before != kEqual) return before;
    const int64_t place = in_fraction ? position : std::max<int64_t>(1, bound.point) - 1 - position;
    if (!in_fraction && place < 0) return kEqual;  // longer than the bound: after_whole() decides
    const char other = bound.digit(place);
    return c < other ? kLess : c > other ? kGreater : kEqual;
  }

  Order after_whole(const Reading& reading, Order before, const DecimalBound* bound) const {
    if (bound == nullptr) return before;
    const int64_t length = std::max<int64_t>(1, bound->value.point);
    const auto own = static_cast<int64_t>(reading.count);
    return own < length ? kLess : own > length ? kGreater : before;
  }

  // fraction: which digit of a fraction it is, from 1; 0 for a digit of the whole part.
  static void add_digit(const Divisor& divisor, DivisorState& state, char c, uint32_t fraction) {
    if (state.failed) return;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (fraction > divisor.scale) {
      if (digit != 0) state = {0, 0, true, true};
      return;
    }
    if (digit != 0) state.begun = true;
    if (digit == 0 && state.zeros < divisor.zeros) {
      if (state.begun) ++state.zeros;
      return;
    }
    uint64_t rest = state.rest;
    for (uint32_t i = 0; digit != 0 && i < state.zeros; ++i) rest = rest * 10 % divisor.number;
    state.rest = static_cast<uint32_t>((rest * 10 + digit) % divisor.number);
    if (digit != 0) state.zeros = 0;
  }

  bool may_end(const Reading& reading) const {
    if (reading.phase == Phase::begin || reading.phase == Phase::point) return false;
    const bool in_fraction = reading.phase == Phase::fraction;
    const auto order = [&](Order so_far, const DecimalBound& bound) {
      if (!in_fraction) so_far = after_whole(reading, so_far, &bound);
      // A bound's fraction ends with no zero.
      const int64_t read = in_fraction ? static_cast<int64_t>(reading.count) : 0;
      return so_far == kEqual && bound.value.fraction() > read ? kLess : so_far;
    };
    const Order least = order(reading.least, range_.least);
    if (least == kLess || (least == kEqual && range_.least.exclusive)) return false;
    if (range_.most) {
      const Order most = order(reading.most, *range_.most);
      if (most == kGreater || (most == kEqual && range_.most->exclusive)) return false;
    }
    for (size_t i = 0; i < divisors_.size(); ++i) {
      if (divides(divisors_[i], reading.divisors[i], in_fraction ? reading.count : 0) == divisors_[i].excludes)
        return false;
    }
    return true;
  }

  static bool divides(const Divisor& divisor, const DivisorState& state, uint32_t fraction) {
    if (state.failed) return false;
    uint64_t rest = state.rest;
    for (int64_t i = fraction; i < divisor.scale && rest != 0; ++i) rest = rest * 10 % divisor.number;
    return !state.begun || (rest == 0 && state.zeros == divisor.zeros);
  }

  const Magnitudes& range_;
  const std::vector<Divisor> divisors_;
  const bool whole_only_;
  int64_t longest_ = 1, deepest_ = 0;  // digits before and after the point that matter
  std::map<Reading, uint32_t> numbers_;
  std::vector<const Reading*> order_;
};

}  // namespace

Decimal parse_decimal(std::string_view number) {
  Decimal made;
  made.negative = number.starts_with('-');
  if (made.negative) number.remove_prefix(1);
  int64_t exponent = 0;
  if (const size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    const bool down = digits.starts_with('-');
    if (down || digits.starts_with('+')) digits.remove_prefix(1);
    for (const char c : digits) exponent = std::min(exponent * 10 + (c - '0'), kMaxExponent);
    if (down) exponent = -exponent;
    number = number.substr(0, e);
  }
  made.point = static_cast<int64_t>(std::min(number.find('.'), number.size())) + exponent;
  for (const char c : number) {
    if (c != '.') made.digits += c;
  }
  const size_t zeros = std::min(made.digits.find_first_not_of('0'), made.digits.size());
  made.digits.erase(0, zeros);
  made.point -= static_cast<int64_t>(zeros);
  made.digits.erase(made.digits.find_last_not_of('0') + 1);
  if (made.digits.empty()) made = {};
  return made;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int magnitude = compare_magnitudes(a, b);
  return a.negative ? -magnitude : magnitude;
}

bool is_multiple(const Decimal& value, const Decimal& divisor) {
  const Divisor made = make_divisor({divisor, false});
  if (value.is_zero()) return true;
  uint64_t rest = 0;
  for (const char c : value.digits) rest = (rest * 10 + static_cast<uint64_t>(c - '0')) % made.number;
  // The place of the last digit of each. Both end with another digit than zero.
  const int64_t own = value.point - static_cast<int64_t>(value.digits.size());
  const int64_t least = made.scale > 0 ? -made.scale : made.zeros;
  constexpr int64_t kEnough = 30;  // a divisor below 10^9 has fewer factors of 2 or 5
  for (int64_t i = 0; i < std::min(own - least, kEnough); ++i) rest = rest * 10 % made.number;
  return own >= least && rest == 0;
}

void DecimalSet::add_least(const DecimalBound& bound) {
  const int order = least ? compare(bound.value, least->value) : 1;
  if (order > 0) least = bound;
  if (order == 0) least->exclusive |= bound.exclusive;
}

void DecimalSet::add_most(const DecimalBound& bound) {
  const int order = most ? compare(bound.value, most->value) : -1;
  if (order < 0) most = bound;
  if (order == 0) most->exclusive |= bound.exclusive;
}

TextAutomaton decimal_texts(const DecimalSet& set) {
  if (set.least && set.most && compare(set.least->value, set.most->value) > 0) return {};
  std::vector<Divisor> divisors;
  for (const DecimalDivisor& divisor : set.divisors) divisors.push_back(make_divisor(divisor));
  TextAutomaton made;
  made.states.emplace_back();
  for (const bool negative : {false, true}) {
    const auto range = magnitudes(set, negative);
    if (!range) continue;
    const TextAutomaton part = Builder(*range, divisors, set.whole).build();
    if (part.empty()) continue;
    const auto first = static_cast<uint32_t>(made.states.size());
    for (TextAutomaton::State state : part.states) {
      for (TextAutomaton::Edge& edge : state.edges) edge.target += first;
      made.states.push_back(std::move(state));
    }
    if (negative) {
      made.states[0].edges.push_back({{{'-', '-'}}, first});
    } else {
      made.states[0].edges = made.states[first].edges;
    }
  }
  return trimmed(made);
}

}  // namespace weft
