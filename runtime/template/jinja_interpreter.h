// Runs a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "template/jinja_ast.h"

namespace weft::jinja {

// The text a template gives for these variables. budget: steps it may take before it is taken not to end. Throws Error:
// bad_file or unsupported naming the line, invalid_argument where the template itself raises an exception.
Text interpret(const Body& body, std::vector<std::pair<std::string, Value>> variables, const std::string& place,
               int64_t budget);

}  // namespace weft::jinja
