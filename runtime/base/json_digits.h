// JSON whose numbers keep all their digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_value.h"

namespace weft {

enum class Digits {
  whole,  // of whole numbers
  all,    // of numbers with a fraction or an exponent, too
};

// As parse_json(), but a whole number that fits neither int64_t nor uint64_t, and with Digits::all each number that is
// not whole, is a text that long_number() knows: the byte 0xff, which no text of JSON has, and its spelling.
JsonValue parse_json_digits(std::string_view text, const JsonLimits& limits, Code code, const std::string& place,
                            Digits digits = Digits::whole);

// Spelling of such a number, for example "-18446744073709551616" or "1e-3"; nothing for any other value.
std::optional<std::string_view> long_number(const JsonValue& value);

// The value in one line as parse_json_digits() read it: members in the order of the text, long numbers with their
// digits.
std::string dump_digits(const JsonValue& value);

}  // namespace weft
