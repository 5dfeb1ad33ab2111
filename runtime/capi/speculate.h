// Drafters of the C API's sessions.
#pragma once

#include <memory>

#include "capi/handles.h"

namespace weft::capi {

// The drafter that a request asks for; nullptr: none. Throws as speculate.h of weft says.
std::unique_ptr<Drafter> make_drafter(weft_session& session, const RequestState& request);

}  // namespace weft::capi
