// JSON Schema (draft 2020-12) as its specification says it, keyword by keyword: what accepted texts are checked with.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::reference {

// Why a value is not valid under a schema; empty if it is. root: the document that $ref points into. Throws
// std::invalid_argument for a keyword this does not know.
std::string why_invalid(const nlohmann::json& value, const nlohmann::json& schema, const nlohmann::json& root);

}  // namespace weft::reference
