// A model folder as Hugging Face publishes it.
#pragma once

#include <filesystem>

#include "format/model_file.h"

namespace weft {

// Of a model that reads texts and pictures.
enum class Half { text, image };

// Opens config.json and its neighbours; ModelFile::index is left empty. Of a model of Idefics3 or SmolVLM only one
// half: for the text, what would be the folder of its text model alone. Errors as open_model's, and Error(unsupported)
// if there is no half for images.
ModelFile open_huggingface(const std::filesystem::path& folder, Half half = Half::text);

}  // namespace weft
