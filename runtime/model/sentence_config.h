// Files of sentence-transformers beside a model, or the keys of a GGUF file for the same: how a text becomes an
// embedding.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/model_file.h"

namespace weft {

// How the hidden states of a text become one: their mean, the first or the last one.
enum class Pooling { mean, first, last };

// A layer after the pooling: y = f(W x + b). It is small, so that the CPU computes it.
struct DenseLayer {
  uint32_t rows = 0, cols = 0;
  std::vector<float> weights;  // (rows, cols)
  std::vector<float> bias;     // (rows); empty: none
  bool tanh = false;           // f; else nothing

  std::vector<double> apply(std::span<const double> x) const;
};

// The tokens whose logits after a query and a document say if the document is an answer.
struct RelevanceTokens {
  uint32_t yes = 0;
  std::optional<uint32_t> no;
  // (width): the row of "yes" less that of "no", if a file has the two by themselves; else empty.
  std::vector<float> direction = {};
};

struct SentenceConfig {
  bool given = false;  // the files say that the model makes embeddings
  Pooling pooling = Pooling::mean;
  // The most tokens read from a text, its first and last included; 0: the files give no limit.
  uint32_t most_tokens = 0;
  std::map<std::string, std::string> prompts;            // texts that come before a text, by name
  std::string default_prompt;                            // without a name
  std::shared_ptr<const std::vector<DenseLayer>> dense;  // nullptr: none
  std::optional<RelevanceTokens> relevance;

  // Elements of an embedding.
  uint32_t size(uint32_t width) const { return dense ? dense->back().rows : width; }
};

// context, width: the model's own. projection: a matrix of the model that comes right after the pooling, or nullptr.
// Throws Error(unsupported) for a module, a pooling or a prompt that Weft does not know, and Error(bad_file).
SentenceConfig read_sentence_config(const ModelFile& file, bool causal, uint32_t context, uint32_t width,
                                    const TensorView* projection = nullptr);

// The same from a GGUF file of this architecture.
SentenceConfig read_gguf_sentence_config(const ModelFile& file, const std::string& architecture, bool causal,
                                         uint32_t width);

// Names of a GGUF file's dense layers.
inline constexpr const char* kGgufDense[] = {"dense_2.weight", "dense_3.weight"};

}  // namespace weft
