// Published Medusa heads in GGUF's words (docs/formats.md).
#pragma once

#include "convert/huggingface.h"

namespace weft {

// True for a file that open_medusa() reads: a safetensors file by its name.
bool is_safetensors(const std::filesystem::path& path);
// Its tensors. Throws as parse_safetensors and MappedFile do.
ModelFile open_medusa(const std::filesystem::path& path);
// Converts the file that Medusa's training writes, which has `medusa_head.K.J.linear.weight` and `.bias` for each head
// K and each of its layers J from 0 on, and perhaps `medusa_head.K.L.weight`, a vocabulary matrix, L being the number
// of layers. Throws Error(bad_file) for a file without heads or with other shapes, and Error(unsupported) for other
// tensors.
ConvertSource gguf_of_medusa(const ModelFile& checkpoint);

}  // namespace weft
