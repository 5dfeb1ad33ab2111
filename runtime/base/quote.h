// Text from a file, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// The text with bytes below 0x20, 0x7f and bytes that are no UTF-8 written as \xNN, and cut to 100 bytes with "..."
// after it.
std::string printable(std::string_view text);

}  // namespace weft
