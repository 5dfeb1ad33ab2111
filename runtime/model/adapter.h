// LoRA adapters (Hu et al. 2021, arXiv 2106.09685): for some products y = W x of a model's layers, an adapter has two
// matrices of a low rank, and the product becomes y = W x + scale * B (A x).
#pragma once

#include <filesystem>
#include <unordered_map>
#include <vector>

#include "format/model_file.h"
#include "model/model.h"

namespace weft {

// The largest rank of a product: the sum of the ranks for the tensors that the device keeps as one matrix.
inline constexpr uint64_t kMostRank = 1024;

// Opens a GGUF file, or a folder as PEFT writes it (adapter_config.json, adapter_model.safetensors). Throws as
// open_model.
ModelFile open_adapter(const std::filesystem::path& path);

// Constant after construction but for leave_device() and enter_device(); any number of sessions may use it.
class Adapter {
 public:
  struct Pair {  // of f16
    Matrix a;    // (rank, columns of W)
    Matrix b;    // (rows of W, rank), times the scale
  };

  // base: the file that the model was loaded from; not kept. scale: multiplies the scale of the file. The model
  // outlives the adapter. Throws Error(bad_file) or Error(unsupported) naming the tensor that does not fit the model,
  // Error(unsupported) for another method than LoRA or a model that is no decoder, Error(invalid_argument) for an
  // adapter of another architecture or a scale that is not finite.
  Adapter(const Model& model, const ModelFile& base, ModelFile file, float scale);

  Adapter(const Adapter&) = delete;  // the views point to the buffer
  Adapter& operator=(const Adapter&) = delete;

  // nullptr: the product stays as it is.
  const Pair* find(const Linear& linear) const;
  const Model& model() const { return model_; }
  uint32_t rank() const { return rank_; }  // of the widest product, filled up to a multiple of 64
  // A hash of all numbers with their scale: adapters of the same fingerprint give the same states.
  uint64_t fingerprint() const { return fingerprint_; }
  uint64_t bytes() const { return buffer_.bytes(); }

  // After the device was lost: gives up what lay on it; uploads it to the device that the model has then. Throws
  // Error(bad_file) if the file has changed.
  void leave_device();
  void enter_device();

 private:
  struct Source {  // a pair of the file, for one of the tensors that the matrix of a product is made of
    const TensorView *a, *b;
    const char* role;
    uint32_t first_row, rows;  // of the product
    double scale;
  };
  struct Product {
    uint32_t layer, place;  // in Layer::linears()
    uint32_t rows, cols, rank;
    std::vector<Source> sources;
  };
  struct Numbers {
    std::vector<float> a, b;
  };
  void find_products(const ModelFile& base, float scale);
  Numbers numbers_of(const Product& product) const;
  std::vector<float> read(const TensorView& tensor) const;

  const Model& model_;
  ModelFile file_;
  std::vector<Product> products_;
  uint32_t rank_ = 0;
  uint64_t fingerprint_ = 0;  // 0: not known yet
  Buffer buffer_;
  std::unordered_map<const Linear*, Pair> pairs_;
};

}  // namespace weft
