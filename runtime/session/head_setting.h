// The setting of a session's vocabulary head.
#pragma once

#include <string_view>

#include "tokenizer/tokenizer.h"
#include "vocab/heads/vocab_head.h"

namespace weft {

// "full", "certified", "sure", "sure:P", "fast", "fast:SIGMA", "auto", "auto:MODE", "keep:LIST" or "MODE+keep:LIST"
// (LIST: keep/keep_list.h).
// Throws Error(invalid_argument) naming what is wrong and what there is, and what make_keep_list throws.
VocabHead parse_vocab_head(std::string_view text, const Tokenizer& tokenizer);

}  // namespace weft
