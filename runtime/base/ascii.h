// ASCII letters, in every locale alike: std::tolower follows the host program's locale, and a Turkish one has no 'i'
// for 'I'.
#pragma once

namespace weft {

inline char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace weft
