// Calls that a model must make, in the notation that its chat template teaches.
#pragma once

#include <string>
#include <string_view>

#include "chat/calls.h"

namespace weft {

struct ForcedCall {
  std::string begun;    // the beginning of the answer, with the names of control tokens: it belongs to the prompt
  std::string grammar;  // GBNF of what follows
};

// A call of one of the tools, of which there is at least one, whose arguments follow the tool's schema.
ForcedCall forced_call(const Tools& tools, std::string_view chat_template);

}  // namespace weft
