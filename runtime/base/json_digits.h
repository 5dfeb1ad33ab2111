// JSON whose whole numbers keep all their digits.
#pragma once

#include <optional>
#include <string_view>

#include "base/json_value.h"

namespace weft {

// As parse_json(), but a whole number that fits neither int64_t nor uint64_t is a text that long_number() knows: the
// byte 0xff, which no text of JSON has, and its spelling.
JsonValue parse_json_digits(std::string_view text, const JsonLimits& limits, Code code, const std::string& place);

// Spelling of such a number, for example "-18446744073709551616"; nothing for any other value.
std::optional<std::string_view> long_number(const JsonValue& value);

}  // namespace weft
