// Committed goldens, and the folder of shared test inputs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include "support/json_value.h"

namespace weft::test {

using Json = nlohmann::json;

// The folder of shared test inputs; none on a machine without it.
std::optional<std::filesystem::path> shared_folder();
// The committed goldens of a library: "tokenizer" or "template".
std::filesystem::path golden_folder(const std::string& library);

std::string read_text(const std::filesystem::path& path);
Json read_json(const std::filesystem::path& path);

}  // namespace weft::test
