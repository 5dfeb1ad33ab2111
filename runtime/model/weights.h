// A model's weights on the device.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/recorder.h"
#include "model/arrival.h"
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

// Layers that do not fit the device's memory budget wait, packed, in the host's memory (their buffers are there). Two
// slots on the device take turns: a layer reads its weights in one while the next layer's are copied to the other.
// Between passes slot 0 holds layer 0, so that any pass may follow any other.
struct Stream {
  Buffer slots[2];   // of the largest layer's bytes
  std::mutex order;  // held from a pass's first submission to its last: passes must not mix
  const Buffer& slot(uint32_t layer) const { return slots[layer % 2]; }
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

// The formats that matrices and the vocabulary's tables get on the device. None: for each matrix the one that comes
// closest to its type in the file; for those that the device keeps as one, the finest of theirs.
struct DeviceFormats {
  DeviceFormats() = default;
  DeviceFormats(Format all) : matrices(all), tables(all) {}
  DeviceFormats(std::optional<Format> all) : matrices(all), tables(all) {}

  std::optional<Format> matrices, tables;
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
  std::unique_ptr<Stream> stream;           // nullptr: all layers stay on the device
  std::deque<TensorReport> tensors;         // elements stay where they are
  std::unique_ptr<Arrival> arrival;         // nullptr: all layers are there. Goes first: it writes to the others

  // Returns once everything is on the device. Throws what kept it from getting there.
  void wait() const {
    if (arrival) arrival->wait(layers.size());
  }

  // Copies a layer that is streamed to its slot, beside what is recorded next. Every pass does so for the layer after
  // each, and at its end for the first.
  void fetch(Recorder& recorder, uint32_t layer) const {
    if (stream) recorder.copy(layers[layer].buffer, stream->slot(layer));
  }
  std::string type() const;  // the matrices' formats, finest first: "q8", or "q8+q4"
  bool tied() const { return !separate_output; }
  const Table& head() const { return separate_output ? *separate_output : *embedding; }
  uint64_t vocab_bytes() const;
  uint64_t layer_bytes() const;     // everything but the vocabulary's tables
  uint64_t streamed_bytes() const;  // of them, those in the host's memory
  uint64_t device_bytes() const;    // all that is on the device
};

// Whether the whole file is a network of this config, and nothing else; sets config.vocab. Throws as load_weights does.
void check_weights(const ModelFile& file, Config& config);

// Checks every tensor's shape against the config (sets config.vocab), packs and uploads. progress is told 0..1. Throws
// Error(bad_file) naming tensor, found and expected shape. Where the plan has a memory budget and the weights would
// take more than three quarters of it, the layers are streamed; Error(out_of_memory) with the figures where that does
// not fit either, Error(unsupported) where an encoder's would have to be.
Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     const DeviceFormats& formats, const std::function<void(float)>& progress);

// As load_weights, but what the layers of a decoder hold may follow when it has returned (weights.arrival); not where
// they are streamed. Everything is checked then but the tensors' numbers, and all memory is allocated. progress is told
// on the thread that brings them.
Weights begin_weights(const std::shared_ptr<Device>& device, std::shared_ptr<const ModelFile> file, Config& config,
                      const DeviceFormats& formats, const std::function<void(float)>& progress);

}  // namespace weft
