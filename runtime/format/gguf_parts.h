// Models in several GGUF files, as llama-gguf-split and the Python package gguf write them: "NAME-00001-of-00003.gguf".
// The first part has the model's keys; each has "split.no", "split.count" and "split.tensors.count", and its tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "format/gguf.h"

namespace weft {

inline constexpr uint64_t kMaxGgufParts = 1000;

struct GgufPart {
  uint64_t number = 0, count = 1;   // number is below count
  std::optional<uint64_t> tensors;  // of all parts together
};

// The keys' values; one part of one if there are none. Throws Error(bad_file).
GgufPart gguf_part(const GgufContents& contents, const std::string& place);

// The path of another part of the model that a part of this path belongs to. Throws Error(bad_file) if the name is not
// that of such a part.
std::filesystem::path gguf_part_path(const std::filesystem::path& path, const GgufPart& part, uint64_t number);

// The file name without the end "-00001-of-00003.gguf", if it has one; the number of parts in count.
std::optional<std::string> gguf_part_stem(const std::string& name, uint64_t& count);

}  // namespace weft
