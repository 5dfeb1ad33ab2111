// Settings of the image encoder in a model file, checked.
#pragma once

#include "image/tiles.h"
#include "model/config.h"

namespace weft {

// A tile becomes side * side patches, each a token of the network; shuffle * shuffle neighbouring tokens become a row.
// With merged rows, tiles have any number of patches that is a multiple of `shuffle` on both sides.
struct ImageConfig {
  Config network;  // width, layers, heads; its context is the patches of a tile, or the most
  PictureSettings pictures;
  uint32_t patch = 0;    // pixels of its side
  uint32_t side = 0;     // patches in a row of a tile
  uint32_t shuffle = 0;  // patches in a row of those that are joined
  // Gemma 3: their states are averaged and normed (pooled), not joined. Qwen3-VL: a feed-forward merges them.
  ImageKind kind = ImageKind::joined;
  uint32_t position_side = 0;            // merged: of the square of learned positions, in patches
  std::vector<uint32_t> deepstack = {};  // merged: layers after which states become rows, ascending
  uint32_t text_width = 0;               // of the rows

  uint32_t rows_per_tile() const { return side / shuffle * (side / shuffle); }
};

// Reads a file of open_image_model. Throws as read_config.
ImageConfig read_image_config(const ModelFile& file);

}  // namespace weft
