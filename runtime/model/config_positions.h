// Reading how layers know positions: RoPE and its scaling, and windows. Not for other modules.
#pragma once

#include <string>

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

inline constexpr uint32_t kMostContext = 1u << 24;

// Both set c.ropes, c.query_growth and c.layer_configs, whose mixers are attention. p: the prefix of the family's keys.
void read_gguf_positions(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p);
void read_huggingface_positions(Config& c, const JsonObject& values);

}  // namespace weft
