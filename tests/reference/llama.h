// The Llama network in double precision, one token at a time, straight from a model file: the specification of
// forward.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/model_file.h"
#include "model/config.h"

namespace weft::reference {

// Sums of the squares of the products' inputs, by the role of a tensor that they are multiplied with ("attn_q",
// "attn_output", "ffn_gate", "ffn_down") and layer.
using SquareSums = std::map<std::pair<std::string, uint32_t>, std::vector<double>>;

// Logits after every one of the ids: (ids, vocab). Matrices are rounded to the format as the device rounds them
// (ops/matrix.h), keys and values to f16; activations are not. q4 takes what a file of Q4_1 has.
std::vector<std::vector<double>> llama_logits(const ModelFile& file, const Config& config, Format format,
                                              std::span<const uint32_t> ids, SquareSums* squares = nullptr);

}  // namespace weft::reference
