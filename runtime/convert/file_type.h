// The types of GGUF files that are written, by the names that llama.cpp's llama-quantize gives them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "format/tensor.h"

namespace weft {

// The values are those of weft_file_type.
enum class FileType : uint32_t { f16 = 1, q8_0, q4_1, q4_0, iq4_nl, mxfp4, q4_k_s, q4_k_m, q5_k_s, q5_k_m, q6_k };

struct FileTypeInfo {
  FileType type;
  const char* name;  // "q4_k_m"; static
  uint32_t number;   // llama.cpp's llama_ftype, for general.file_type
  DType matrices;
  DType output;  // of the table that makes the logits
  // Not f32: the type of half of the matrices that rounding harms most: attn_v and ffn_down of the first and the last
  // eighth of the layers, and of each third one between them. fused: of matrices of queries, keys and values in one.
  DType finer = DType::f32, fused = DType::f32;
};

std::span<const FileTypeInfo> file_types();
const FileTypeInfo& info(FileType type);

// The layer of a tensor such as "blk.7.attn_v.weight"; nothing for others.
std::optional<uint64_t> layer_of(std::string_view tensor);

// The type that rows of so many columns get: the type itself if they are whole blocks. Else Q5_0
// of Q4_K, Q5_1 of Q5_K and Q8_0 of Q6_K, as llama.cpp has it; and F16 if they are no multiple of 32.
DType fitting_type(DType type, uint64_t columns);

// The type of a matrix, before fitting_type. layers: of the model. vocab: of the vocabulary tables, if not as `type`
// says. tied: the file has no output.weight.
DType matrix_type(FileType type, std::optional<FileType> vocab, std::string_view tensor, uint64_t layers, bool tied);

}  // namespace weft
