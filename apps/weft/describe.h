// The program's options as a man page and as completions of shells, made from the description that parses them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace weft::cli {

constexpr std::string_view kDescriptions[] = {"man", "bash", "zsh", "fish"};

// kind: one of kDescriptions.
std::string describe(const CLI::App& app, std::string_view kind);

}  // namespace weft::cli
