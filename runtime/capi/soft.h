// Parts of prompts in the C API.
#pragma once

#include <span>
#include <vector>

#include "capi/handles.h"
#include "session/soft.h"
#include "weft/soft.h"

namespace weft::capi {

// The parts for Session::prompt_parts, which refer to the same ids and rows. Throws as weft_session_prompt_parts.
std::vector<PromptPart> prompt_parts_of(const weft_session& session, std::span<const weft_prompt_part> parts);

}  // namespace weft::capi
