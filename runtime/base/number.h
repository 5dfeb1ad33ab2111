// Text to floating point, in every locale alike. std::from_chars does this too, but not in libc++ 19 and earlier.
#pragma once

#include <optional>
#include <string>

namespace weft {

// The whole of the text as std::from_chars reads it: a decimal number, "inf" or "nan", after a '-' or nothing. Nothing
// for other text, and for a number that is too large for a double; one that is too small is 0.
std::optional<double> parse_double(const std::string& text);

}  // namespace weft
