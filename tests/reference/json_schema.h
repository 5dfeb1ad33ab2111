// JSON Schema (draft 2020-12) by its specification, keyword by keyword: the check of accepted texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::reference {

// Returns why a value is not valid under a schema; empty if it is valid. root: the document that $ref points into.
// Throws std::invalid_argument for a keyword this does not know.
std::string why_invalid(const nlohmann::json& value, const nlohmann::json& schema, const nlohmann::json& root);

}  // namespace weft::reference
