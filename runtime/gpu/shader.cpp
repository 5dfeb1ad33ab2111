#include "gpu/shader.h"

#include <cstring>
#include <sstream>

#include "base/error.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG  // which is compressed by the same method
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ASSERT(condition) static_cast<void>(0)
#include <stb/stb_image.h>

namespace weft {
namespace {

// Instructions and decorations of the SPIR-V specification 1.3, section 3, and of GLSL.std.450.
constexpr uint32_t kExtInst = 12, kDecorate = 71, kNoContraction = 42, kFma = 50;
constexpr size_t kHeader = 5;  // words before the first instruction

void mark_fma(std::vector<uint32_t>& words) {
  constexpr uint32_t kMark = 3u << 16 | kDecorate;
  size_t first = 0;
  std::vector<uint32_t> marks;
  for (size_t at = kHeader; at < words.size(); at += words[at] >> 16) {
    const uint32_t opcode = words[at] & 0xffff;
    if (first == 0 && words[at] == kMark && words[at + 2] == kNoContraction) first = at;
    if (opcode == kExtInst && words[at + 4] == kFma) marks.insert(marks.end(), {kMark, words[at + 2], kNoContraction});
  }
  if (first > 0) words.insert(words.begin() + static_cast<ptrdiff_t>(first), marks.begin(), marks.end());
}

}  // namespace

std::string binding_name(const Shader& shader, uint32_t binding) {
  std::istringstream names(shader.binding_names);
  std::string name;
  for (uint32_t i = 0; i <= binding; ++i) names >> name;
  return name;
}

std::vector<uint32_t> unpack_spirv(std::span<const uint8_t> code) {
  constexpr size_t kGzipHeader = 10;
  uint32_t size = 0;  // the last four bytes, little-endian
  std::memcpy(&size, code.data() + code.size() - sizeof size, sizeof size);
  std::vector<uint32_t> words(size / 4);
  const std::span<const uint8_t> deflated = code.subspan(kGzipHeader);
  const int unpacked = stbi_zlib_decode_noheader_buffer(reinterpret_cast<char*>(words.data()), static_cast<int>(size),
                                                        reinterpret_cast<const char*>(deflated.data()),
                                                        static_cast<int>(deflated.size()));
  if (unpacked != static_cast<int>(size)) throw Error(Code::internal, "a shader of the library is damaged");
  mark_fma(words);
  return words;
}

}  // namespace weft
