// Runs a text through a model's layers, with scratch of its own, for those who want to know what happens within.
#pragma once

#include <functional>
#include <span>

#include "model/forward.h"

namespace weft {

struct TextRun {
  // Before the pass is recorded; may be empty.
  std::function<void(Pass&)> prepare = {};
  // Records what follows the layers; may be empty.
  std::function<void(Recorder&, const Pass&)> end = {};
  // After each chunk: the text's tokens [first, first + count) have the pass's first rows.
  std::function<void(size_t first, size_t count, const Pass&)> after;
};

// ids: the whole context, at most the model's. Returns when all of it is computed.
void run_text(const Model& model, std::span<const uint32_t> ids, const TextRun& run);

}  // namespace weft
