// The translators of a tuned lens (Belrose et al. 2023, "Eliciting Latent Predictions from Transformers with the Tuned
// Lens"): each turns the hidden state after one layer into what the last layer would have made of it.
#pragma once

#include <filesystem>
#include <map>
#include <span>

#include "format/model_file.h"
#include "model/model.h"

namespace weft {

// config.json and params.safetensors of a folder (docs/lens.md): the tensors "K.weight" (width, width) and "K.bias"
// (width) for each layer K from 0 on, but none for the last one. Every number is checked. Throws Error(not_found),
// Error(io), Error(bad_file) and Error(unsupported), naming file and key, and Error(invalid_argument) for translators
// of a model of another width or number of layers.
ModelFile open_tuned_lens(const std::filesystem::path& folder, const Config& config);

// Translators of some layers on the device, as f16: h' = h + W h + b, in which h itself is not rounded.
class Translators {
 public:
  // file: of open_tuned_lens. layers: the last one needs no translator, and one may be named twice.
  Translators(const Model& model, const ModelFile& file, std::span<const uint32_t> layers);
  Translators(const Translators&) = delete;  // matrices point to the buffers
  Translators& operator=(const Translators&) = delete;

  bool has(uint32_t layer) const { return translators_.contains(layer); }
  // to[t] = h', from[t] = h: (tokens, stride_of(width)), tokens a multiple of the plan's block_tokens. has(layer).
  void record(Recorder& recorder, uint32_t layer, const View& from, const View& to, uint32_t tokens) const;

 private:
  struct Translator {
    Buffer buffer;  // the matrix, then its bias
    Matrix matrix;
  };
  const Model& model_;
  Buffer step_;  // abi::StepState of a pass of block_tokens tokens
  std::map<uint32_t, Translator> translators_;
};

}  // namespace weft
