// The tensors of a model file by role, with the same layout for all families. Not for other modules.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace weft {

// The transposed bytes of a matrix of a type without blocks.
std::vector<std::byte> transposed(const TensorView& tensor);

// Some rows of a matrix on the device: those of a tensor, or some of them.
struct Part {
  const char* role;
  uint64_t rows;
  // The tensor has rows (head, of, head_dim), and this is part `number` of each head. A tensor of experts has heads of
  // one row.
  uint32_t of = 1, number = 0;
  // Not 0: the tensor is a convolution's kernel (rows, channels, taps); Tensors::convolution has its columns.
  uint32_t channels = 0;
  // Not 0: the tensor is a convolution's kernel over so many frames, which are all the same: Tensors::frames.
  uint32_t frames = 0;
};

class Tensors {
 public:
  Tensors(const ModelFile& file, const Config& config) : file_(file), config_(config) {}

  // The tensor of a role (model/family.h); nullptr if the file lacks it.
  const TensorView* find(std::string_view role, int layer, std::string_view what = "weight");
  // The tensor of a name outside the roles; nullptr if the file lacks it.
  const TensorView* find_named(const std::string& name);
  // A tensor that must be there, in this shape. Throws Error(bad_file) naming tensor, found and expected shape.
  const TensorView& need(std::string_view role, int layer, const std::vector<uint64_t>& shape,
                         std::string_view what = "weight");
  // A matrix (rows, cols), as the file stores it.
  const TensorView& need_matrix(std::string_view role, int layer, uint64_t rows, uint64_t cols);
  // The same, transposed or sorted if the family stores it otherwise. The result is valid until forget().
  const TensorView& matrix(std::string_view role, int layer, uint64_t rows, uint64_t cols);
  // Part `number` of each head of a matrix whose rows are (head, of, head_dim): (rows, cols). Valid until forget().
  const TensorView& head_part(std::string_view role, int layer, uint64_t rows, uint64_t cols, uint32_t number,
                              uint32_t of);
  // Parts of the experts' matrix before the activation: gates and what they gate, each of `ffn` rows.
  std::vector<Part> expert_gate_up(int layer, uint64_t ffn);
  // The matrix (part.rows, cols) of one of `count` experts, and its bias (part.rows). Valid until forget().
  // as_stored: the numbers may be missing or in another order, which takes no time.
  const TensorView& expert(const Part& part, int layer, uint32_t number, uint32_t count, uint64_t cols, bool as_stored);
  const TensorView& expert_bias(const Part& part, int layer, uint32_t number, uint32_t count);
  const TensorView& bias(std::string_view role, int layer, uint64_t rows);
  // The kernels (channels, taps) of a convolution of each channel by itself; Hugging Face's have three dimensions.
  const TensorView& kernel(std::string_view role, int layer, uint64_t channels, uint64_t taps);
  // A convolution's kernel (rows, channels, taps) as a matrix (rows, cols) for windows of rows that lie one after the
  // other: taps blocks of stride_of(channels) columns, zeros after the channels. Valid until forget(). as_stored: the
  // numbers may be missing, which takes no time.
  const TensorView& convolution(const Part& part, uint64_t cols, bool as_stored);
  // The sum (rows, cols) of a kernel's frames: (rows, 3, frames, height, width), or in GGUF files two tensors (rows,
  // cols). Valid until forget(). as_stored: the numbers may be missing, which takes no time.
  const TensorView& frames(const Part& part, uint64_t cols, bool as_stored);
  void forget() { made_.clear(); }
  // Adds the tensors that the other half of an encoder-decoder has asked for.
  void add_used(const Tensors& other) { used_.insert(other.used_.begin(), other.used_.end()); }

  // Throws Error(unsupported) naming a tensor that nobody has asked for: without it (a bias, a norm) the network would
  // run and give wrong results.
  void refuse_leftovers() const;

 private:
  struct Made {
    std::vector<std::byte> bytes;
    TensorView view;
  };
  const TensorView& need_named(const std::string& name, const std::vector<uint64_t>& shape);
  const TensorView* look_up(const std::string& name);
  bool stored_transposed(std::string_view role) const;
  bool predicts_further_tokens(const std::string& name) const;
  bool sorted_by_head(std::string_view role) const;
  bool stores_transposed_experts() const;
  const TensorView& made_expert(const Part& part, int layer, uint32_t number, uint32_t count, uint64_t cols,
                                bool as_stored);
  const TensorView& in_place(const TensorView& tensor, std::vector<uint64_t> shape, std::vector<std::byte> bytes);
  const TensorView& in_order(const TensorView& tensor, uint64_t rows, uint64_t first,
                             std::function<uint64_t(uint64_t)> source);
  const TensorView& by_part(const TensorView& tensor);

  const ModelFile& file_;
  const Config& config_;
  std::set<std::string> used_;
  std::deque<Made> made_;
};

}  // namespace weft
