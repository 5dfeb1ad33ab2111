// Tokens of a template to its statements.
#pragma once

#include <string>
#include <string_view>

#include "template/jinja_ast.h"

namespace weft::jinja {

// place: for errors. Throws Error(bad_file) naming the line where the template contradicts the grammar,
// Error(unsupported) naming a tag that Weft does not know.
Body parse(std::string_view source, const std::string& place);

}  // namespace weft::jinja
