// Real vocabularies in ../shared as the metadata JSON or the tokenizer.json that weft reads.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace weft::test {

using Json = nlohmann::json;

// The folder of shared test inputs, nothing on a machine without it.
std::optional<std::filesystem::path> shared_folder();
// The committed goldens of this room.
std::filesystem::path golden_folder();

std::string read_text(const std::filesystem::path& path);
Json read_json(const std::filesystem::path& path);

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

}  // namespace weft::test
