// Settings that a config.json need not have.
#pragma once

#include <string_view>

namespace weft {

// A JSON object: the values of keys that a file of this model type lacks, as the configuration classes of Transformers
// have them. Empty for types that are not listed.
std::string_view default_settings(std::string_view model_type);

}  // namespace weft
