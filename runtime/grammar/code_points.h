// Sets of Unicode code points, and the UTF-8 byte sequences they are made of.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weft {

struct CodePointRange {
  char32_t low = 0, high = 0;  // both included

  auto operator<=>(const CodePointRange&) const = default;
};

// Any code points but surrogates (U+D800 to U+DFFF), which no UTF-8 text holds: they are dropped from whatever is
// added.
class CodePointSet {
 public:
  CodePointSet() = default;
  // In any order, each with low <= high <= 0x10FFFF.
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  CodePointSet(std::initializer_list<CodePointRange> ranges) : CodePointSet(std::vector(ranges)) {}

  // All of Unicode.
  static CodePointSet all() { return {{0, 0x10FFFF}}; }

  CodePointSet inverse() const;
  CodePointSet united(const CodePointSet& other) const;
  CodePointSet without(const CodePointSet& other) const;
  CodePointSet intersected(const CodePointSet& other) const;
  bool contains(char32_t code) const;
  bool empty() const { return ranges_.empty(); }

  bool operator<(const CodePointSet& other) const { return ranges_ < other.ranges_; }  // some order, for tables

  // Ascending; neither overlapping nor touching.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

// One to four ranges of bytes. The texts with one byte out of each, in order, are characters in UTF-8.
struct ByteRange {
  uint8_t low = 0, high = 0;  // both included
};
using Utf8Sequence = std::vector<ByteRange>;

// Sequences that between them give every character of the set once and nothing else (The Unicode Standard, table 3-7).
std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set);

}  // namespace weft
