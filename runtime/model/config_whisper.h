// Settings that Whisper has beyond BART. Not for other modules.
#pragma once

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

// c: with its encoder, as BART's. Throws as read_config.
void read_whisper(Config& c, const ModelFile& file, const JsonObject& values);

}  // namespace weft
