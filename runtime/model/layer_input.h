// Per-layer embeddings (Gemma 3n's and Gemma 4's): each layer has an embedding of its own of every token, which gates a
// small third branch at the layer's end. A table that is only gathered from has them: a row is all layers' of a token.
#pragma once

#include <memory>

#include "model/linear.h"
#include "vocab/table.h"

namespace weft {

struct Config;
struct Pieces;
class Parts;

// The inputs of all layers, once for a pass: (row of the table + norm(projection x)) / sqrt(2), layer by layer, where x
// is the embedding. The norm's weights include the factor. Without a table (EmbeddingGemma 2): norm(projection x).
struct LayerInputs {
  std::unique_ptr<Table> table;  // (vocab, layers * layer_input), in the host's memory; nullptr: none
  Buffer buffer;
  Linear projection;  // (layers * layer_input, width)
  Buffer norm;        // (layer_input)

  void list(Parts& parts, Pieces& pieces);
  uint64_t table_bytes() const { return table ? table->bytes() : 0; }
  uint64_t bytes() const { return buffer.bytes() + norm.bytes(); }  // on the device
  void record(const Network& network) const;
};

// x += norm(out (gelu(gate x) * input of the layer)).
struct LayerInput {
  Linear gate;  // (layer_input, width)
  Linear out;   // (width, layer_input)
  View norm;    // (width)

  void list(Parts& parts, int index, Pieces& pieces);
  // next, scale: as BranchEnd has them.
  void record(const Network& network, uint32_t index, const View& next, float scale) const;
};

}  // namespace weft
