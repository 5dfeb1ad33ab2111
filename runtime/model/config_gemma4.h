// Reading what Gemma 4 has beyond Gemma 3: layers with heads of their own, caches that layers share, per-layer
// embeddings. Not for other modules.
#pragma once

#include <span>
#include <string>

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

// The heads of layers without a window, from config.json.
ops::HeadShape read_gemma4_global(const Config& c, const JsonObject& values);
// True if this key says that pictures see themselves whole, which does not change texts.
bool sees_pictures_whole(const Config& c, const JsonObject& values, const std::string& key);
// Both complete c.layer_configs, whose windows are set.
void read_gguf_gemma4(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p,
                      std::span<const uint32_t> kv_heads);
void read_huggingface_gemma4(Config& c, const JsonObject& values);

}  // namespace weft
