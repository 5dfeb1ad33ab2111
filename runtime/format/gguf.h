// GGUF: one file with metadata, tokenizer and tensors. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md Version 1 has 32-bit counts, lengths and dimensions,
// versions 2 and 3 have 64-bit ones; little-endian only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "format/tensor.h"

namespace weft {

// A key as the file has it.
struct GgufKey {
  std::string name;
  uint32_t type = 0;                 // gguf_metadata_value_type
  std::span<const std::byte> value;  // after the type; belongs to the caller
};

struct GgufContents {
  uint32_t version = 0;
  std::vector<GgufKey> keys;  // in file order
  // All key-values, as one flat object. Strings are the file's bytes and need not be UTF-8.
  JsonValue metadata;
  std::vector<TensorView> tensors;  // in file order, each inside the file, none overlapping; bytes belong to the caller
};

// Reads a whole GGUF file's bytes; place (its path) begins every error. Throws Error(bad_file), and Error(unsupported)
// for big-endian files, later versions and tensor types without a DType; nothing else except std::bad_alloc.
GgufContents parse_gguf(std::span<const std::byte> file, const std::string& place);

// The name ggml gives a tensor type: 12 is "Q4_K"; "type 99" for a type without a name.
std::string ggml_type_name(uint32_t type);

// ggml's number of a tensor type, and back: nothing for types that Weft does not read.
uint32_t ggml_type(DType dtype);
std::optional<DType> dtype_of_ggml(uint32_t type);

}  // namespace weft
