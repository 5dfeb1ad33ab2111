#include "grammar/code_points.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace weft {

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};
  for (size_t i = 0, given = ranges.size(); i < given; ++i) {
    const CodePointRange range = ranges[i];
    if (range.low > kSurrogates.high || range.high < kSurrogates.low) continue;
    ranges[i].high = kSurrogates.low - 1;  // what is empty now is dropped below
    ranges.push_back({std::max<char32_t>(range.low, kSurrogates.high + 1), range.high});
  }
  std::erase_if(ranges, [](const CodePointRange& r) { return r.low > r.high; });
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  for (const CodePointRange range : ranges) {
    if (!ranges_.empty() && range.low <= ranges_.back().high + 1) {
      ranges_.back().high = std::max(ranges_.back().high, range.high);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::inverse() const {
  std::vector<CodePointRange> gaps;
  char32_t next = 0;
  for (const CodePointRange range : ranges_) {
    if (range.low > next) gaps.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= 0x10FFFF) gaps.push_back({next, 0x10FFFF});
  return CodePointSet(std::move(gaps));
}

CodePointSet CodePointSet::united(const CodePointSet& other) const {
  std::vector<CodePointRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(both));
}

CodePointSet CodePointSet::without(const CodePointSet& other) const { return inverse().united(other).inverse(); }

CodePointSet CodePointSet::intersected(const CodePointSet& other) const {
  CodePointSet made;
  for (auto a = ranges_.begin(), b = other.ranges_.begin(); a != ranges_.end() && b != other.ranges_.end();) {
    const CodePointRange both{std::max(a->low, b->low), std::min(a->high, b->high)};
    if (both.low <= both.high) made.ranges_.push_back(both);
    (a->high < b->high ? a : b) += 1;
  }
  return made;
}

bool CodePointSet::contains(char32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const CodePointRange& r) { return r.low <= code && code <= r.high; });
}

namespace {

// Sequences for the characters from low to high, which have the same length in UTF-8.
void add_sequences(char32_t low, char32_t high, std::vector<Utf8Sequence>& sequences) {
  // If the two differ in an earlier byte, the later bytes must run over all of their values.
  for (int bits = 6; high >= 0x80 && bits <= 18; bits += 6) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if ((low & ~mask) == (high & ~mask)) break;
    if ((low & mask) != 0) {
      add_sequences(low, low | mask, sequences);
      add_sequences((low | mask) + 1, high, sequences);
      return;
    }
    if ((high & mask) != mask) {
      add_sequences(low, (high & ~mask) - 1, sequences);
      add_sequences(high & ~mask, high, sequences);
      return;
    }
  }
  std::string first, last;
  append_utf8(first, low);
  append_utf8(last, high);
  Utf8Sequence& sequence = sequences.emplace_back();
  for (size_t i = 0; i < first.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])});
  }
}

}  // namespace

std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set) {
  std::vector<Utf8Sequence> sequences;
  for (const CodePointRange range : set.ranges()) {
    char32_t begin = 0;
    for (const char32_t end : {0x7F, 0x7FF, 0xFFFF, 0x10FFFF}) {
      const char32_t low = std::max(range.low, begin), high = std::min<char32_t>(range.high, end);
      if (low <= high) add_sequences(low, high, sequences);
      begin = end + 1;
    }
  }
  return sequences;
}

}  // namespace weft
