// The printable alphabet of byte-level BPE: one character for each byte (bytes_to_unicode of GPT-2's encoder.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The bytes in the alphabet.
std::string byte_level_spelling(std::string_view bytes);

// The bytes that a text in the alphabet stands for; nothing if a character is outside it.
std::optional<std::string> byte_level_bytes(std::string_view spelling);

}  // namespace weft
