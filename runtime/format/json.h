// JSON text from hostile files.
#pragma once

#include <string>
#include <string_view>

#include "base/json_value.h"

namespace weft {

// weft::parse_json with the limits of format/limits.h, and with Python's NaN, Infinity and -Infinity for numbers.
// Throws Error(bad_file) with this place.
JsonValue parse_json(std::string_view text, const std::string& place);

}  // namespace weft
