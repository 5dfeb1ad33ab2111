// A model's weights on the device.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/recorder.h"
#include "model/config.h"
#include "model/layer_loader.h"
#include "model/sound_input.h"
#include "vocab/shards.h"
#include "vocab/table.h"
#include "vocab/table_basis.h"

namespace weft {

// Layers that do not fit in the device's memory budget stay, packed, in the host's memory (their buffers are there).
// The device has two layer buffers: a layer reads its weights in one while the next layer's weights are copied to the
// other. Between passes buffer 0 holds layer 0, so that any pass may follow any other; after a pass of which a part
// failed it may not, and the next pass copies layer 0 first.
struct Stream {
  Buffer buffers[2];   // of the largest layer's bytes
  std::mutex order;    // held from a pass's first submission to its last: passes must not interleave
  bool whole = false;  // every pass so far was submitted to its end, with layer 0 copied before the first; by order
  const Buffer& buffer(uint32_t layer) const { return buffers[layer % 2]; }
};

// Predicts the token under a mask (Devlin et al. 2019): y = norm(activation(transform x)) goes to the vocabulary table,
// and `bias` is added to the logits.
struct MaskedHead {
  Buffer buffer;
  Matrix transform;  // (width, width)
  View norm;         // (2, width)
  View bias;         // (vocab)
};

// Qwen3-VL: makes a row of the text model of neighbouring patches' states: y = down gelu(up x).
struct PatchMerger {
  int number = -1;  // of tensor_name's deepstack roles; -1: of the last states, which are normed before they are joined
  Buffer buffer;
  View norm;    // (2, joined) of the joined states of a layer
  Matrix up;    // (joined, joined)
  Matrix down;  // (rows, joined)
};

// Weights of Gemma 4's drafter before its layers and after them; backbone: the width of its target (Config::backbone).
struct AssistantEnds {
  Buffer buffer;
  Matrix in;   // (width, 2 * backbone): of the target's embedding of a token, and a state
  Matrix out;  // (backbone, width): the state for the next guess
};

// Weights of an image encoder before its layers and after them.
struct ImageEnds {
  uint32_t pixels = 0, joined = 0, rows = 0;  // the matrices' columns, and the rows of the second
  Buffer buffer;
  Matrix patches;     // (width, pixels of a patch)
  Matrix projection;  // (width of the text model, width * neighbours that become one row; or width, if they are pooled)
  View soft_norm;     // (width) of the norm before it, if they are pooled
  std::vector<PatchMerger> mergers;  // in place of the projection, the last states' first; none: not Qwen3-VL
  uint32_t position_side = 0;        // with mergers: of the square of learned positions
  std::vector<float> positions;      // (position_side, position_side, width)
};

// Place of a tensor of the file on the device, for `weft inspect`.
struct TensorReport {
  std::string name;
  std::vector<uint64_t> shape;
  std::string file_type, device_type;
  uint64_t device_bytes;  // without the padding of tiles
  std::string buffer;
  Rounding rounding;  // from the file's type to the device's
};

// The formats of the matrices and of the vocabulary tables on the device, not native ones. None: each matrix gets the
// one that is closest to its type in the file; parts of a matrix share one (weights_layout.h). tie: two tables that
// rounding explains become one (tied_tables.h); false: only two tables of the same bytes.
struct DeviceFormats {
  DeviceFormats(std::nullopt_t = std::nullopt) {}
  DeviceFormats(Format all) : matrices(all), tables(all) {}
  DeviceFormats(std::optional<Format> all) : matrices(all), tables(all) {}

  std::optional<Format> matrices, tables;
  bool native_table = false;  // the table that is projected on keeps the file's bits, if `tables` has no format for it
  bool tie = true;
  std::shared_ptr<const StateStatistics> states;  // for the table that is projected on; nullptr: unknown
  std::vector<uint32_t> rows;                     // the only ones that tables have, in this order; none: all
  std::shared_ptr<const TableSplit> split;        // nullptr: the model's device has all rows. Not with `rows`
};

// A file's two vocabulary tables that have become one.
struct Tie {
  std::string kept, left_out;  // tensors
  double difference;           // Euclidean norm, relative to that of the kept one
};

struct Model;

struct Weights {
  std::shared_ptr<Table> embedding;           // the halves of an encoder-decoder share it
  std::unique_ptr<Table> separate_output;     // nullptr: tied, the embedding is used
  std::vector<TableShard> shards;             // by row: what those two do not have; none: they have all rows
  std::optional<Tie> tie;                     // nothing: the file has one table, two of the same bytes, or two in use
  bool untied_by_tensors = false;             // the file says that its two tables are one, but they differ
  Buffer attention_norms;                     // of all layers, rows at kViewAlignment: see attention_norm()
  Buffer final_norm;                          // (width), or (2, width)
  Buffer embedding_norm;                      // the same; none: without bytes
  Buffer positions;                           // (context, width) floats added to the embedding; none: without bytes
  Buffer score_biases;                        // (heads, 2 * buckets.farthest + 1), by distance; none: without bytes
  Buffer logit_bias;                          // (vocab) added to the logits; none: without bytes
  std::unique_ptr<MaskedHead> masked_head;    // nullptr: the file has none
  std::unique_ptr<HeadWeights> head;          // of Config::head; nullptr: the model has none
  std::unique_ptr<LayerInputs> layer_inputs;  // nullptr: layers have no embeddings of their own
  std::unique_ptr<SoundInput> sound;          // of an encoder that reads sound; nullptr: it reads tokens
  std::unique_ptr<AssistantEnds> assistant;   // of Gemma 4's drafter; nullptr: it is none
  std::shared_ptr<const Model> encoder;       // of an encoder-decoder: its other half
  std::vector<Layer> layers;                  // reserved, so that elements stay where they are: views point into them
  std::unique_ptr<Stream> stream;             // nullptr: all layers stay on the device
  std::list<TensorReport> tensors;            // elements stay where they are
  std::unique_ptr<LayerLoader>
      layer_loader;  // nullptr: all layers are loaded. Destroyed first: it writes to the others

  // Returns once everything is on the device. Throws if a layer cannot be loaded.
  void wait() const {
    if (layer_loader) layer_loader->wait(layers.size());
  }

  // (width), or (2, width). Not with the layer: the one before begins the norm, when this one may not be there yet.
  View attention_norm(uint32_t layer) const {
    const uint64_t bytes = attention_norms.bytes() / layers.size();
    return View(attention_norms).part(layer * bytes, bytes);
  }

  // If layers are streamed, copies one to its layer buffer, beside what is recorded next (schedule.h).
  void fetch(Recorder& recorder, uint32_t layer) const {
    if (stream) recorder.copy(layers[layer].buffer, stream->buffer(layer));
  }
  // Throws Error(unsupported) if other devices have rows of the vocabulary tables. what: cannot be done then.
  void need_all_rows(const char* what) const;
  std::string type() const;  // the matrices' formats, finest first: "q8", or "q8+q4"
  bool tied() const { return !separate_output; }
  const Table& output_table() const { return separate_output ? *separate_output : *embedding; }
  uint64_t vocab_bytes() const;
  uint64_t layer_bytes() const;     // everything but the vocabulary's tables
  uint64_t streamed_bytes() const;  // of them, those in the host's memory: streamed layers, per-layer embeddings
  uint64_t device_bytes() const;    // all that is on the device
};
// If a move threw halfway, the weights would be destroyed while their loader still works. So no member is a std::deque,
// which allocates when it is moved.
static_assert(std::is_nothrow_move_constructible_v<Weights>);

// Checks that the whole file is a network of this config, and nothing else. Sets config.vocab. Throws as load_weights.
void check_weights(const ModelFile& file, Config& config);

// Checks every tensor's shape against the config (sets config.vocab), packs and uploads. progress is called with 0..1.
// Throws Error(bad_file) naming tensor, found and expected shape. If the plan has a memory budget and the weights would
// take more than three quarters of it, the layers are streamed. Throws Error(out_of_memory) with the figures if that
// does not fit either, Error(unsupported) for an encoder's layers. With formats.split, Error(unsupported) for encoders
// and streamed layers.
Weights load_weights(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                     const DeviceFormats& formats, const std::function<void(float)>& progress);

// Packs the vocabulary's tables again, with formats.states: nothing may use them. progress is called with 0..1.
void reload_vocabulary(const std::shared_ptr<Device>& device, const ModelFile& file, Config& config,
                       const DeviceFormats& formats, Weights& weights, const std::function<void(float)>& progress);

// As load_weights, but may return before the layers of a decoder are uploaded: weights.layer_loader then does that, and
// tells progress on its thread. All memory is allocated then, and everything but the tensors' numbers is checked.
Weights begin_weights(const std::shared_ptr<Device>& device, std::shared_ptr<const ModelFile> file, Config& config,
                      const DeviceFormats& formats, const std::function<void(float)>& progress);

}  // namespace weft
