// A regular expression over UTF-8 text, in Oniguruma's dialect and run by PCRE2 with Unicode properties; safe for any
// text and for hostile patterns.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

struct Span {
  size_t begin = 0, end = 0;  // byte offsets
};

// Constant after construction; find_all() may run on any number of threads.
class Regex {
 public:
  // Throws Error(bad_file), with place, for a pattern that does not compile.
  Regex(std::string_view pattern, std::string place);

  // All matches that are not empty, left to right, not overlapping. Bytes that are no UTF-8 match nothing and end the
  // text for what stands before them. Throws Error(bad_file) when a pattern's backtracking, or the time it takes,
  // passes a limit in proportion to the text.
  std::vector<Span> find_all(std::string_view text) const;

  const std::string& pattern() const { return pattern_; }

 private:
  struct Compiled;
  class Deadline;
  void find_in_valid(std::string_view text, size_t base, Deadline& deadline, std::vector<Span>& spans) const;

  std::shared_ptr<const Compiled> code_;
  std::string pattern_, place_;
};

}  // namespace weft
