// "Did you mean": the names that are nearest to one that does not exist.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

// The names that a mistyped one may stand for, likeliest first: those that begin with it, then those with few letters
// that were changed, added, left out or swapped. At most `most`.
std::vector<std::string> nearest(const std::string& wrong, const std::vector<std::string>& names, std::size_t most = 3);

// "did you mean --temperature or --typical-p?"; empty for no names.
std::string did_you_mean(const std::vector<std::string>& names);

}  // namespace weft::cli
