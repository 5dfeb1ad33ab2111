// Makes Llama-family models with random weights, as GGUF files and as Hugging Face folders; and, as GGUF files, models
// most of whose layers are linear attention, and Gemma 4s.
//
// Weights depend on the seed, the tensor's Hugging Face name, row and column only. So the two formats hold the same
// network if written with the same type: GGUF's attn_q and attn_k have their rows in the order that rotates adjacent
// pairs, Hugging Face's in the order that rotates halves. Tensors are written row by row: no shape is too large for the
// memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/tensor.h"

namespace weft {

// The layers that do not attend. architecture: "qwen35" (Gated DeltaNet), "granitehybrid" (Mamba-2), or "lfm2"
// (short convolutions), which has `taps` and `attending` alone.
struct LinearLayers {
  std::string_view architecture = {};  // empty: all layers attend, and the model is a Llama
  uint32_t key_heads = 0, heads = 0, key_dim = 0, value_dim = 0, taps = 4;
  uint32_t attend_every = 0, first_attends = 0;  // layers first_attends, first_attends + attend_every, ... attend
  uint32_t attending = 0;                        // in their place: a bit for each layer that attends
};

// Gemma 4's layers: LlamaShape has the heads of those with a window, and the feed-forward of those that share no cache,
// half as wide as the others'.
struct Gemma4Layers {
  uint32_t global_every = 0;  // every n-th layer has no window; 0: the model is no Gemma 4
  uint32_t global_dim = 0;    // of its heads
  uint32_t shared = 0;        // last layers that read the caches of earlier ones
  uint32_t input = 0;         // columns of a layer's own embedding
  uint32_t window = 512;
};

// Layers with experts. architecture: "qwen3moe", "gpt-oss", or with linear layers "qwen35moe" or "granitehybrid".
struct ExpertLayers {
  std::string_view architecture = {};  // empty: the model has none
  uint32_t count = 0, used = 0, ffn = 0;
  uint32_t shared_ffn = 0;  // 0: no feed-forward beside them
};

struct LlamaShape {
  uint32_t width = 64;  // of a hidden state
  uint32_t layers = 2;
  uint32_t heads = 4;       // of queries
  uint32_t kv_heads = 2;    // of keys and values; divides heads
  uint32_t head_dim = 0;    // even; 0: width / heads
  uint32_t ffn = 160;       // feed-forward width
  uint32_t vocab = 512;     // rows of the vocabulary table, at least 3: <unk>, <s>, </s>, then 256 bytes, then words
  bool tied = true;         // no output matrix of its own
  uint32_t context = 2048;  // tokens
  float rms_epsilon = 1e-5f;
  float rope_base = 10000.0f;
  LinearLayers linear = {};
  Gemma4Layers gemma4 = {};
  ExpertLayers experts = {};

  bool is_gemma4() const { return gemma4.global_every > 0; }
  bool is_global(uint32_t layer) const { return (layer + 1) % gemma4.global_every == 0; }
  std::string_view architecture() const {
    if (is_gemma4()) return "gemma4";
    if (!experts.architecture.empty()) return experts.architecture;
    return linear.architecture.empty() ? "llama" : linear.architecture;
  }
  bool attends(uint32_t layer) const {
    if (linear.architecture.empty()) return true;
    if (linear.attend_every == 0) return (linear.attending >> layer & 1) != 0;
    return layer % linear.attend_every == linear.first_attends;
  }
  uint32_t head_width() const { return head_dim == 0 ? width / heads : head_dim; }
};

struct MakeOptions {
  // Type of the matrices; vectors are F32. A matrix whose rows are no multiple of the type's block becomes F16 instead.
  // Hugging Face folders have F32, F16 and BF16, and no experts. GGUF's types but Q8_0 hold random blocks, not the
  // rounded weights.
  DType type = DType::q8_0;
  uint64_t seed = 1;
  std::string chat_template;               // Jinja; none if empty
  std::optional<DType> second_table = {};  // GGUF: the vocabulary table again, as an output matrix of this type
  std::vector<int32_t> medusa_rows = {};   // of heads: the key "medusa.rows"; none if empty
  uint32_t medusa_layers = 1;              // of each head
  uint32_t medusa_vocab = 0;               // rows of each head's own vocabulary matrix; 0: without one
};

// "tiny" (64 wide, 2 layers; the default shape), "135m", "gemma270m", "qwen0.6b", "qwen3.5-0.8b", "granite-4-h-1b",
// "lfm2.5-1.2b", "gemma4-e2b", "1b", "8b"; with experts "qwen3-30b-a3b", "qwen3.5-35b-a3b", "granite-4-h-tiny",
// "gpt-oss-20b". Throws std::invalid_argument.
LlamaShape named_shape(std::string_view name);

// Write a model, replacing what is there. Throw std::invalid_argument for an invalid shape, std::runtime_error if
// writing fails.
void make_gguf(const std::filesystem::path& path, const LlamaShape& shape, const MakeOptions& options = {});
// Medusa heads for a model of this width (docs/formats.md), weights of made_row's kind times `scale`; 0: zeros, so that
// every head says what the model does.
void make_medusa(const std::filesystem::path& path, uint32_t width, uint32_t heads, const MakeOptions& options = {},
                 float scale = 1);
// A tuned lens's folder (docs/lens.md) for a model of this shape, of floats. entry: of a layer's W at row and column,
// and of its b where the column is `width`.
using LensEntry = std::function<float(uint32_t layer, uint32_t row, uint32_t col)>;
void make_tuned_lens(const std::filesystem::path& folder, uint32_t width, uint32_t layers, const LensEntry& entry);
// A LoRA adapter as PEFT writes it, for queries and down-projections, with random numbers that change the text.
void make_adapter(const std::filesystem::path& folder, const LlamaShape& shape, uint32_t rank, uint64_t seed);
void make_huggingface(const std::filesystem::path& folder, const LlamaShape& shape, const MakeOptions& options = {});

// The tokens of both formats. After the bytes come all strings over the word mark and a to z, by length, then in order;
// so that each of two characters or more has two shorter tokens that merge to it.
std::vector<std::string> made_vocabulary(uint32_t size);

// Row `row` of a tensor in Hugging Face's row order, before any rounding: matrices normal with standard deviation
// 1 / sqrt(columns) (close to normal: sums of four uniform numbers), vectors (norm weights, one row) 1 + 0.1 * normal.
void made_row(std::string_view huggingface_name, bool vector, uint64_t seed, uint64_t row, std::span<float> out);

}  // namespace weft
