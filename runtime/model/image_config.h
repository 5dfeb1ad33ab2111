// Settings of the image encoder in a model file, checked.
#pragma once

#include "image/tiles.h"
#include "model/config.h"

namespace weft {

// A tile becomes side * side patches, each a token of the network; shuffle * shuffle neighbouring tokens become a row.
struct ImageConfig {
  Config network;  // width, layers, heads; its context is the patches of a tile
  PictureSettings pictures;
  uint32_t patch = 0;       // pixels of its side
  uint32_t side = 0;        // patches in a row of a tile
  uint32_t shuffle = 0;     // patches in a row of those that are joined
  bool pooled = false;      // Gemma 3: their states are averaged and normed, not joined
  uint32_t text_width = 0;  // of the rows

  uint32_t rows_per_tile() const { return side / shuffle * (side / shuffle); }
};

// Reads a file of open_image_model. Throws as read_config.
ImageConfig read_image_config(const ModelFile& file);

}  // namespace weft
