// A model's weights on the device.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "vocab/table.h"

namespace weft {

// One layer in one buffer: its matrices as tiles; its norms and the matrices' biases as floats. Layer norms are (2,
// width), their biases behind the weights.
struct LayerWeights {
  Buffer buffer;
  View attention_norm;  // (width)
  Matrix qkv;           // (q + k + v rows, width): three matrices, one behind the other
  View head_norms;      // (2, head_dim): of queries, of keys; none: without a buffer
  Matrix out;           // (width, heads * head_dim)
  // Where the layer attends to an encoder's output too; else without buffers.
  View cross_norm;   // (width)
  Matrix cross_q;    // (heads * head_dim, width)
  Matrix cross_kv;   // (k + v rows, width), once for an input
  Matrix cross_out;  // as out
  View ffn_norm;     // (width); where attention's is for both: without a buffer
  Matrix router;     // (experts, width); none: without a buffer
  Matrix gate_up;    // (2 * ffn, width): gate, then up; not gated: (ffn, width)
  Matrix down;       // (width, ffn); with experts these two are as ops::matmul_expert has them
  View attention_branch_norm, ffn_branch_norm;  // (width) of what is added to x; none: without a buffer
};

// What makes a hidden state a prediction of the token that a mask hides, before the vocabulary table (Devlin et al.
// 2019): norm(activation(transform x)), and a bias for each token's logit.
struct MaskedHead {
  Buffer buffer;
  Matrix transform;  // (width, width)
  View norm;         // (2, width)
  View bias;         // (vocab)
};

// Where a tensor of the file went, for `weft inspect`.
struct TensorReport {
  std::string name;
  std::vector<uint64_t> shape;
  std::string file_type, device_type;
  uint64_t device_bytes;  // without the filling of tiles
  std::string buffer;
  Rounding rounding;  // on the way to the device's type
};

struct Model;

struct Weights {
  std::shared_ptr<Table> embedding;         // gathered from; an encoder-decoder's halves share it
  std::unique_ptr<Table> separate_output;   // projected on; nullptr when tied: then that is the embedding too
  Buffer final_norm;                        // (width), or (2, width)
  Buffer embedding_norm;                    // likewise; none: without bytes
  Buffer positions;                         // (context, width) floats added to the embedding; none: without bytes
  Buffer score_biases;                      // (heads, 2 * buckets.farthest + 1), by distance; none: without bytes
  Buffer logit_bias;                        // (vocab) added to the logits; none: without bytes
  std::unique_ptr<MaskedHead> masked_head;  // nullptr: the file has none
  std::shared_ptr<const Model> encoder;     // of an encoder-decoder: its other half
  std::deque<LayerWeights> layers;          // elements stay where they are: views point into them
  std::vector<TensorReport> tensors;

  std::string type() const;  // the matrices' formats, finest first: "q8", or "q8+q4"
  bool tied() const { return !separate_output; }
  const Table& head() const { return separate_output ? *separate_output : *embedding; }
  uint64_t vocab_bytes() const;
  uint64_t layer_bytes() const;  // everything but the vocabulary's tables
};

// Whether the whole file is a network of this config, and nothing else; sets config.vocab. Throws as load_weights does.
void check_weights(const ModelFile& file, Config& config);

// Checks every tensor's shape against the config (sets config.vocab), packs and uploads. format: of every matrix; none:
// each gets the one that comes closest to its type in the file (those that are stored as one on the device, the finest
// of theirs). progress is told 0..1. Throws Error(bad_file) naming tensor, found and expected shape.
Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     std::optional<Format> format, const std::function<void(float)>& progress);

}  // namespace weft
