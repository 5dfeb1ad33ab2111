// Writing a model as a GGUF file of Q8_0, Q4_1 or F16, which llama.cpp opens too.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "format/packed_row.h"
#include "ops/matrix.h"

namespace weft {

struct ConvertOptions {
  Format type = Format::q8;        // of the matrices
  Format vocab_type = Format::q8;  // of the vocabulary table or tables
  bool replace = false;            // a file that is there already
};

// A tensor that was written.
struct ConvertedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  const char* from;  // type_name of the source
  DType to;
  uint64_t bytes;  // in the new file
  Rounding rounding;
};

// Converts the GGUF file or Hugging Face folder at `in` to the GGUF file `out`. A GGUF file may be of any family: its
// keys are carried over as they are, general.file_type and general.quantization_version but, and two vocabulary tables
// that are one (model/tied_tables.h) are written as one. A folder may be
// of any family that GGUF has, and must have a tokenizer that GGUF can state (convert/gguf_tokenizer.h). Vectors and
// what llama.cpp wants so become F32; matrices whose rows are no multiple of 32 become F16 instead. Rounding is the
// device's (format/packed_row.h): the new file runs as the old one does on a device of this type.
//
// A safetensors file of published Medusa heads becomes a file of these heads (convert/medusa.h).
//
// progress is called with 0..1. If it fails, no file `out` remains. Throws Error as open_model, read_config and
// AtomicFile do, and Error(invalid_argument) if `out` already exists or is a folder.
std::vector<ConvertedTensor> convert(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const ConvertOptions& options, const std::function<void(float)>& progress);

}  // namespace weft
