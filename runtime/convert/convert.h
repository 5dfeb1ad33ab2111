// Writing a model as a GGUF file of another type, which llama.cpp opens too.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/file_type.h"
#include "format/packed_row.h"

namespace weft {

struct ConvertOptions {
  FileType type = FileType::q8_0;
  std::optional<FileType> vocab_type = {};  // of the vocabulary table or tables; nothing: as `type` says
  bool replace = false;                     // a file that is there already
  std::filesystem::path importance = {};    // file of an importance matrix (format/importance.h); empty: none
};

// A tensor that was written.
struct ConvertedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  const char* from;  // type_name of the source
  DType to;
  uint64_t bytes;  // in the new file
  bool weighted;   // by the importance matrix
  Rounding rounding;
};

// Converts the GGUF file or Hugging Face folder at `in` to the GGUF file `out`. A GGUF file may be of any family: its
// keys are carried over as they are, general.file_type and general.quantization_version but, and two vocabulary tables
// that are one (model/tied_tables.h) are written as one. A folder may be
// of any family that GGUF has, and must have a tokenizer that GGUF can state (convert/gguf_tokenizer.h). Vectors and
// what llama.cpp wants so become F32; matrices whose rows are no whole blocks get another type (fitting_type). Rounding
// to F16, Q8_0 and Q4_1 is the device's (format/packed_row.h): the new file runs as the old one does on a device of
// this type. Rounding to the others is that of convert/rounding/; a tensor that has the type already stays as it is.
// Numbers that are not finite are refused, and those above 65504 that are rounded to blocks or to F16.
//
// An importance matrix is refused with Error(invalid_argument), naming file and tensor, if it has a tensor that the
// model lacks or that has other columns: it is another model's. Tensors that it lacks are rounded without it.
// If the new file has one vocabulary table, the factors of output.weight are for that one.
//
// A safetensors file of published Medusa heads becomes a file of these heads (convert/medusa.h).
//
// progress is called with 0..1. If it fails, no file `out` remains. Throws Error as open_model, read_config and
// AtomicFile do, and Error(invalid_argument) if `out` already exists or is a folder.
std::vector<ConvertedTensor> convert(const std::filesystem::path& in, const std::filesystem::path& out,
                                     const ConvertOptions& options, const std::function<void(float)>& progress);

}  // namespace weft
