// Reading which layers have another mixer than attention, and which one. Not for other modules.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

inline constexpr uint32_t kMost = 1u << 20;  // of any dimension: far above every model, far below overflow
inline constexpr uint32_t kMostLayers = 4096;
inline constexpr double kTiny = 1e-12;

[[noreturn]] void unsupported(const std::string& what, const JsonObject& values);

// A number for each layer, 1 to `most`: GGUF has an array of them, or one number for all.
std::vector<uint32_t> read_each(const JsonObject& values, const std::string& key, uint32_t layers, uint32_t most);
// The key/value heads of each layer; layers without attention may have none. p: the prefix of the family's keys.
std::vector<uint32_t> read_kv_heads(const Config& c, const JsonObject& values, const std::string& p);
// Both replace the attention of some of c.layer_configs.
void read_gguf_mixers(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p,
                      std::span<const uint32_t> kv_heads);
void read_huggingface_mixers(Config& c, const JsonObject& values);

}  // namespace weft
