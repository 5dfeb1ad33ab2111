// Medusa heads (Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"):
// small matrices that guess the tokens after the next one from the hidden state that the next one was chosen from.
#pragma once

#include <map>

#include "format/model_file.h"
#include "model/model.h"

namespace weft {

inline constexpr uint32_t kMostMedusaHeads = 7;  // what a pass can check (schedule.h)

// The heads of a file on a model's device, and the commands that guess with them. A layer of head k turns the state h,
// which the vocabulary table reads, into h + silu(W_k h + b_k). From the last layer's state the same table, or a matrix
// of the head's own, gives the logits of the token k + 1 places after the next one. All heads' W of the first layer are
// one matrix, and all their states are projected at once, so the model's table is read once. Biases and penalties of
// the logits are left out. Used by one session at a time.
class MedusaHeads {
 public:
  // docs/formats.md has the file's layout. The model outlives this. Throws Error(bad_file) for a file without
  // heads or whose parts contradict each other, and Error(invalid_argument) for heads of a model of another width.
  MedusaHeads(const Model& model, const ModelFile& file);
  MedusaHeads(const MedusaHeads&) = delete;  // views point to the buffers
  MedusaHeads& operator=(const MedusaHeads&) = delete;

  uint32_t count() const { return shape_.heads; }
  // Commands that guess from a state (stride_of(width)) on the device; recorded once for each place. state:
  // abi::StepState.
  const CommandBuffer& commands(const View& hidden, const View& state);
  // Number of a head's guesses, best first.
  static constexpr uint32_t kRanks = 4;
  // Results of the commands after they have run: (count, kRanks), of head 0, 1, ...
  std::span<const abi::Guess> guesses() const { return {guesses_.as<abi::Guess>(), size_t{shape_.heads} * kRanks}; }

  struct Shape {
    uint32_t heads, layers;
    bool own_tables;  // each head has a vocabulary matrix of its own
  };

 private:
  struct Layer {
    Matrix weights;  // (heads * stride_, width); zeros after each head's width rows
    Buffer matrix, bias;
  };
  Layer load_layer(const ModelFile& file, uint32_t layer) const;
  void load_table(const ModelFile& file, uint32_t head);
  void read_ranges(const ModelFile& file);
  void record(Recorder& recorder, const View& hidden, const View& state) const;

  const Model& model_;
  std::shared_ptr<Device> device_;
  Shape shape_;
  uint32_t stride_;                    // of a state
  uint32_t rows_;                      // heads, and as many more as make whole groups of the projection
  std::vector<ops::RowRange> ranges_;  // of the table, that guesses come from; none: all of it
  std::vector<Layer> layers_;
  std::vector<Matrix> tables_;         // (vocab, width) of each head, if heads have their own
  std::vector<Buffer> table_buffers_;  // of these
  Buffer branches_;                    // (heads, stride_) W_k h + b_k
  Buffer states_;                      // (rows_, stride_) the heads'
  Buffer rotated_;                     // (rows_, stride_) in the table's basis
  Buffer logits_;                      // (rows_, stride_of(vocab)); -infinity in rows that guesses do not come from
  Buffer greedy_;                      // abi::SampleParams
  uint32_t candidate_stride_;          // from those of a head to the next one's
  Buffer candidates_;                  // (heads, candidate_stride_) of abi::Candidate
  Buffer guesses_;                     // (heads, kRanks) of abi::Guess
  CommandPool pool_;
  using Place = std::pair<decltype(std::declval<const Buffer&>().handle()), uint64_t>;
  std::map<Place, CommandBuffer> recorded_;  // by the state's place
};

}  // namespace weft
