// whisper.cpp's ggml-*.bin: a Whisper in one file without names for its settings. After the magic number 0x67676d6c
// come, as 32-bit numbers, the sizes of the network; the filters of the spectrogram; the vocabulary, each token's bytes
// after their number; and to the end of the file the tensors: the number of dimensions, the length of the name, ggml's
// type, the dimensions from the innermost on, the name, and the elements, without padding.
// https://github.com/ggml-org/whisper.cpp/blob/master/models/convert-pt-to-ggml.py
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "format/tensor.h"

namespace weft {

// The model in the form of a Hugging Face folder: its files, and its tensors under the names that they have there.
struct WhisperContents {
  JsonValue config, generation_config, tokenizer;
  std::vector<TensorView> tensors;  // in file order; bytes belong to the caller
};

bool is_whisper_file(std::span<const std::byte> file);

// Reads a whole file's bytes; place (its path) begins every error. Throws Error(bad_file), and Error(unsupported) for
// tensor types without a DType; nothing else except std::bad_alloc.
WhisperContents parse_whisper_file(std::span<const std::byte> file, const std::string& place);

}  // namespace weft
