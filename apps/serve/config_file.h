// The options of `weft serve` in a TOML file.
#pragma once

#include <string>
#include <vector>

#include "../weft/common.h"

namespace weft::serve {

// The words of a command line, and after them the options of its `serve --config FILE` that it does not have itself.
// Throws cli::UsageError.
std::vector<std::string> with_config_file(const CLI::App& app, std::vector<std::string> words);

}  // namespace weft::serve
