// The shapes of real models, as far as the operations of a token see them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace weft::microbench {

struct ModelShape {
  const char* name;
  uint32_t width, ffn, vocab;
  ops::HeadShape heads;
  bool norm_heads;  // queries and keys are normalised head by head
  ops::Activation activation;

  uint32_t q() const { return heads.heads * heads.head_dim; }
  uint32_t qkv() const { return (heads.heads + 2 * heads.kv_heads) * heads.head_dim; }
};

inline constexpr ModelShape kShapes[] = {
    {"smollm-135m", 576, 1536, 49152, {9, 3, 64}, false, ops::Activation::silu},
    {"gemma3-270m", 640, 2048, 262144, {4, 1, 256}, true, ops::Activation::gelu_tanh},
    {"qwen3-0.6b", 1024, 3072, 151936, {16, 8, 128}, true, ops::Activation::silu},
    {"llama3.2-1b", 2048, 8192, 128256, {32, 8, 64}, false, ops::Activation::silu},
    {"llama3-8b", 4096, 14336, 128256, {32, 8, 128}, false, ops::Activation::silu},
};

// One function a file of benchmarks: registers those of a shape.
void register_products(const ModelShape& shape);
void register_heads(const ModelShape& shape);
void register_attention(const ModelShape& shape);
void register_vectors(const ModelShape& shape);
void register_choice(const ModelShape& shape);

}  // namespace weft::microbench
