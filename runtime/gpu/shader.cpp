#include "gpu/shader.h"

#include <sstream>

namespace weft {

std::string binding_name(const Shader& shader, uint32_t binding) {
  std::istringstream names(shader.binding_names);
  std::string name;
  for (uint32_t i = 0; i <= binding; ++i) names >> name;
  return name;
}

std::vector<uint32_t> unpack_spirv(std::span<const uint8_t> code) {
  std::vector<uint32_t> words;
  words.reserve(code.size() / 2);
  size_t at = 0;
  const auto next = [&] { return uint32_t{code[at++]}; };
  while (at < code.size()) {
    const uint32_t first = next();
    uint32_t word = first;
    if (first >= 0xf0) {
      word = next();
      if (first < 0xfc)
        word |= (first - 0xf0) << 8;
      else if (first == 0xfd)
        word |= next() << 16;
      else
        for (uint32_t i = 1; i <= (first == 0xfc ? 1 : first - 0xfc); ++i) word |= next() << (8 * i);
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace weft
