// Importance matrices: mean squared inputs of a model's products, by tensor and column, as llama.cpp's llama-imatrix
// and `weft imatrix` measure them. A rounding error matters as much as what it is multiplied by.
// https://github.com/ggml-org/llama.cpp/blob/master/tools/imatrix/README.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weft {

struct Importance {
  struct Tensor {
    uint64_t matrices = 0;       // more than one: the experts'. The older format does not tell them apart
    std::vector<float> factors;  // (matrices, columns); zeros for experts that no token has used
  };
  std::map<std::string, Tensor, std::less<>> tensors;  // by the name of the weights

  const Tensor* find(std::string_view name) const {
    const auto at = tensors.find(name);
    return at == tensors.end() ? nullptr : &at->second;
  }
};

// Reads a GGUF file of general.type "imatrix", with tensors NAME.in_sum2 and NAME.counts, or llama.cpp's older format
// (.dat). place begins every error. Throws Error(bad_file) for any other bytes and for numbers that are no mean of
// squares.
Importance parse_importance(std::span<const std::byte> file, const std::string& place);
// Throws as MappedFile too.
Importance read_importance(const std::filesystem::path& path);

// Sums of the squared inputs of one product, by column.
struct SquaredInputs {
  std::string tensor;  // the name of the weights
  std::vector<double> sums;
  uint64_t tokens = 0;
};
// A GGUF file of them, which llama-quantize reads too. text: the name of what was measured; parts: of part_tokens
// tokens at most. Throws Error(unsupported), naming the tensor, for a sum that no float holds.
std::string importance_file(std::span<const SquaredInputs> inputs, const std::string& text, uint32_t parts,
                            uint32_t part_tokens);

}  // namespace weft
