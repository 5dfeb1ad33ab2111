// Real vocabularies in ../shared as the metadata JSON or the tokenizer.json that weft reads.
#pragma once

#include <string_view>

#include "golden_files.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {

// A byte string in the printable alphabet of byte-level BPE.
std::string byte_level_spelling(std::string_view bytes);

// vocab.json and merges.txt (GPT-2, Qwen2.5) as GGUF metadata; added: tokens after them, control tokens all.
Json gguf_of_vocab_and_merges(const std::filesystem::path& folder, const std::string& pre, const Json& added);
// A tiktoken file (Llama 3): one base64 token and its rank a line; the merges follow from the ranks.
Json gguf_of_tiktoken(const std::filesystem::path& file, const std::string& pre);
// llama2.c's tokenizer.bin (Llama 2): SentencePiece pieces and scores.
Json gguf_of_llama2c(const std::filesystem::path& file);
// The metadata of a GGUF v1 file (stories260K).
Json gguf_v1_metadata(const std::filesystem::path& file);

// Qwen2.5 with its control tokens and its chat template.
Tokenizer qwen25(const std::filesystem::path& folder);

}  // namespace weft::test
