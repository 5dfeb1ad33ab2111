// safetensors: a JSON header and the tensors' bytes. Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tensor.h"

namespace weft {

// True if a tensor of this name may hold no weights. parse_safetensors leaves such tensors out.
bool may_be_no_weights(std::string_view name);

// The tensors of a whole safetensors file's bytes, in the order of their data; bytes belong to the caller. As the
// format asks, they fill the file without holes or overlaps. place (the file's path) begins every error. quantised:
// other types than F32, F16 and BF16 may be parts of quantised matrices (format/quantised.h). Throws Error(bad_file),
// and Error(unsupported) for further types; nothing else but std::bad_alloc.
std::vector<TensorView> parse_safetensors(std::span<const std::byte> file, const std::string& place,
                                          bool quantised = false);

}  // namespace weft
