// JSON text from hostile files.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

// Parses one JSON document (RFC 8259, UTF-8). Bounded in size, depth and number of values (format/limits.h), and
// stricter than most readers in one thing: a key may be in an object only once. Throws Error(bad_file) with this place;
// where the text itself is wrong the sentence names line and byte.
nlohmann::json parse_json(std::string_view text, const std::string& place);

// Empties a value without allocating. nlohmann's destructor of an array or object that is not empty allocates, and ends
// the process where that fails.
void release_json(nlohmann::json& value) noexcept;

}  // namespace weft
