// Reading which layers have experts, how many, and how they are chosen. Not for other modules.
#pragma once

#include <string>

#include "base/json_object.h"
#include "model/config.h"

namespace weft {

// Both set c.experts, c.expert_ffn and the kind of experts; with a feed-forward beside experts, c.ffn is its width.
// c.layer_configs must be there. p: the prefix of the family's keys.
void read_gguf_experts(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p);
void read_huggingface_experts(Config& c, const JsonObject& values);

}  // namespace weft
