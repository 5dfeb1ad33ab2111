// Settings of pictures in a text model's file.
#pragma once

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

// Both need a config that has its family, layers and ropes. Throw as read_config.
void read_gguf_pictures(Config& c, const JsonObject& values);
void read_pictures(Config& c, const JsonObject& values);

}  // namespace weft
