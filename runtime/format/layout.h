// Places of tensors in a file: the rules that GGUF and safetensors have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/tensor.h"

namespace weft {

// Sets tensor.bytes to what its shape and dtype need, at offset into data. Throws Error(bad_file) with this place if
// the shape makes no sense or the bytes pass the end of data.
void place_tensor(TensorView& tensor, uint64_t offset, std::span<const std::byte> data, const std::string& place);

// The byte of the file where the last tensor ends (0 for none). Throws Error(bad_file) if two tensors overlap. All
// bytes must lie in file. Tensors without bytes overlap nothing.
uint64_t check_disjoint(const std::vector<TensorView>& tensors, std::span<const std::byte> file,
                        const std::string& place);

}  // namespace weft
