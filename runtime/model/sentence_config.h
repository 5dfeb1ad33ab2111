// Files of sentence-transformers beside a model: how a text becomes an embedding.
#pragma once

#include <cstdint>

#include "format/model_file.h"

namespace weft {

// How the hidden states of a text become its embedding: their mean, or the first one.
enum class Pooling { mean, first };

struct SentenceConfig {
  Pooling pooling = Pooling::mean;
  // The most tokens read from a text, its first and last included; 0: the files give no limit.
  uint32_t most_tokens = 0;
};

// context: the model's own limit. Throws Error(unsupported) for a module, a pooling or a prompt that Weft does not
// know, and Error(bad_file).
SentenceConfig read_sentence_config(const ModelFile& file, uint32_t context);

}  // namespace weft
