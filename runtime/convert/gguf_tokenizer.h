// The way from a tokenizer.json to the tokenizer of a GGUF file
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "Tokenizer").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_value.h"

namespace weft {

// The "tokenizer." keys as one flat object: texts, flags, whole numbers, and arrays of texts, whole numbers or floats.
// architecture: GGUF's name of the network. embeds: it makes embeddings, of texts with the tokenizer's last token.
// rows: of the vocabulary table; ids that have no token are filled up to there. Byte-level BPE becomes the model "gpt2"
// with the pre-tokeniser of the same patterns, SentencePiece's BPE the model "llama" with scores that rank as the
// merges do, or of "gemma4" the model of that name with its merges. The result is read back and must encode and decode
// many texts alike: a tokenizer that GGUF cannot state is refused. Throws as Tokenizer::from_hf does, and
// Error(unsupported) for a tokenizer that has no such form.
JsonValue gguf_tokenizer(const JsonValue& tokenizer, const JsonValue& config, const JsonValue& generation_config,
                         std::string_view architecture, bool embeds, uint32_t rows, const std::string& place);

}  // namespace weft
