// A model folder as Hugging Face publishes it.
#pragma once

#include <filesystem>

#include "format/model_file.h"

namespace weft {

// Opens config.json and its neighbours; ModelFile::index is left empty. Errors as open_model's.
ModelFile open_huggingface(const std::filesystem::path& folder);

}  // namespace weft
