// Values as models write them that were taught Python's calls or Gemma's.
#pragma once

#include <string>
#include <string_view>

#include "chat/json_extent.h"

namespace weft {

struct ReadLiteral {
  Progress progress = Progress::wrong;
  size_t end = 0;    // done: after it
  std::string json;  // done: the value as JSON, with the numbers as they were written
};

// A literal of Python, JSON or Gemma that begins at text[begin], after spaces. Tuples are arrays; names in an object
// may be bare; strings are in ", ', <|"|> or <escape>.
ReadLiteral read_literal(std::string_view text, size_t begin);

// NAME=VALUE, ... up to a ")", or NAME:VALUE, ... up to a "}", after the bracket that opens them: an object.
ReadLiteral read_named_values(std::string_view text, size_t begin, char equals, char close);

}  // namespace weft
