// A model folder as Hugging Face publishes it.
#pragma once

#include <filesystem>
#include <string>

#include "format/model_file.h"

namespace weft {

// Halves of a model that reads texts and pictures.
enum class Half { text, image };

// Opens config.json and its neighbours; ModelFile::index is left empty. For a model of Idefics3, SmolVLM, Gemma 3 or
// Qwen3-VL only one half; the half for text looks like the folder of its text model alone. Throws as open_model, and
// Error(unsupported) for a model without a half for images.
ModelFile open_huggingface(const std::filesystem::path& folder, Half half = Half::text);

// How errors name a file of the folder, such as config.json: its path; of a model in one file (GGUF, ggml-*.bin), the
// model's path.
std::string place_of(const ModelFile& model, const char* name);

}  // namespace weft
