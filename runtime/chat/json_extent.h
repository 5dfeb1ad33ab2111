// Finds the end of a JSON value in a text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The state of reading a text as something. more: without a fault so far, but not complete.
enum class Progress { done, more, wrong };

struct Extent {
  Progress progress = Progress::more;
  size_t end = 0;  // done: after the value; wrong: where the fault is
};

// The JSON value (RFC 8259) that begins at text[begin], at most 64 levels deep. A number that the text ends with is
// done.
Extent json_extent(std::string_view text, size_t begin);

// A JSON string literal's value; nothing if it is none.
std::optional<std::string> json_text(std::string_view literal);
// A text as a JSON string literal. Bytes that are no UTF-8 become U+FFFD.
std::string json_literal(std::string_view text);

// After spaces.
size_t skip_space(std::string_view text, size_t begin);

}  // namespace weft
