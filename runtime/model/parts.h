// Which tensors of a file the matrices and vectors of a network are made of. All shapes are checked. Not for other
// modules.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "model/tensors.h"
#include "model/weights.h"

namespace weft {

enum class Map { none, minus_exp };  // x: x, -exp(x)

// A part of a vector on the device: a tensor of the file, or one number several times.
struct Floats {
  const TensorView* tensor;
  float offset = 0;                    // added
  uint64_t same = 0;                   // without a tensor: so many times `offset`
  Map map = Map::none;                 // of the numbers, offset included
  const TensorView* factor = nullptr;  // its numbers multiply these, one by one

  uint64_t count() const { return tensor ? element_count(tensor->shape) : same; }
};

// A matrix of a layer and its bias: what they are made of.
struct MatrixSource {
  Matrix& matrix;
  uint64_t cols;
  std::vector<Part> parts;
  bool biased;
  uint32_t experts = 0;               // matrices, one after the other, if it is the experts'; else 0
  std::optional<Format> format = {};  // if not that of the other matrices

  uint32_t copies() const { return std::max(experts, 1u); }
};

struct VectorSource {
  View& view;
  std::vector<Floats> parts;
};

// All that one buffer holds: of a layer, or of the masked-token head.
struct Pieces {
  std::vector<MatrixSource> matrices;
  std::vector<VectorSource> vectors;  // norms, and the matrices' biases
};

// index: of a layer; -1: of the network. All functions throw as Tensors' do.
class Parts {
 public:
  // Both arguments outlive it. Each half of an encoder-decoder has one.
  Parts(const ModelFile& file, Config& config) : file_(file), config_(config), tensors_(file, config) {}

  // Checks the whole file: every tensor is there in its shape, and none is left over. Sets config.vocab. encoder: the
  // encoder's parts, if there is one.
  void check(Parts* encoder);

  struct Vocabulary {
    const TensorView *embedding, *output;  // output is nullptr: the embedding is used for both
  };
  Vocabulary find_vocabulary();  // sets config.vocab
  static bool same_bytes(const TensorView& a, const TensorView& b);

  // For mixers and mlps, which list their own tensors.
  const Config& config() const { return config_; }
  ModelFile::Kind kind() const { return file_.kind; }
  Tensors& tensors() { return tensors_; }

  Pieces layer(Layer& layer, int index);
  std::vector<Floats> norm_parts(std::string_view role, int index);
  std::vector<Floats> attention_norm_parts(int index);
  std::vector<Floats> final_norm_parts();

  const TensorView& position_table();
  uint64_t first_position() const;  // its row for position 0
  const TensorView* token_types();
  const TensorView& score_table();
  const TensorView* logit_bias();
  const TensorView& layer_input_table();
  std::vector<Floats> layer_input_norm();
  Pieces layer_inputs(LayerInputs& inputs);
  float layer_scale(int index);
  bool has_masked_head();
  Pieces masked_head(MaskedHead& head);
  Pieces head(HeadWeights& head);  // config().head must be there

  // For an image encoder: check() without a vocabulary, and the tensors outside the layers.
  void check_image(ImageEnds& ends);
  Pieces image_ends(ImageEnds& ends);
  Pieces merger(PatchMerger& merger, const ImageEnds& ends);
  const TensorView& position_square(const ImageEnds& ends);  // with mergers
  Pieces assistant_ends(AssistantEnds& ends);                // config().backbone must be set
  Pieces sound_input(SoundInput& input);                     // of an encoder that reads sound

  using Sources = std::vector<std::vector<const TensorView*>>;  // of each matrix, or of each expert's
  enum class AsStored { yes, no };  // yes: without transposing or sorting, which loading may need
  Sources sources_of(const std::vector<MatrixSource>& matrices, int index, AsStored as_stored);
  // Frees what was transposed or sorted: sources, and vectors' parts.
  void forget() { tensors_.forget(); }

 private:
  void check_body();
  void check_copies(const TensorView& table) const;

  const ModelFile& file_;
  Config& config_;
  Tensors tensors_;
};

}  // namespace weft
