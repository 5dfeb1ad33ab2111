// From a picture to what a vision encoder reads, and to the text around it: those of Idefics3 and SmolVLM (Laurencon et
// al. 2024, "Building and better understanding vision-language models"; Marafioti et al. 2025, "SmolVLM"), and of
// Gemma 3 (Gemma Team 2025, "Gemma 3 Technical Report").
#pragma once

#include <array>
#include <string>
#include <vector>

#include "image/picture.h"

namespace weft {

// How a model's pictures are prepared: the values of preprocessor_config.json.
struct PictureSettings {
  uint32_t longest_edge = 0;  // in pixels; the first size a picture gets
  uint32_t tile = 0;          // side of a tile in pixels
  bool split = true;          // a picture becomes tiles and the whole; else the whole alone
  bool square = false;        // Gemma 3: it becomes one tile, whatever its sides, by another filter
  double scale = 1.0 / 255;   // of a channel's value
  std::array<float, 3> mean = {0.5f, 0.5f, 0.5f}, deviation = {0.5f, 0.5f, 0.5f};  // of the scaled values, by channel
};

// The tiles of a picture row by row, and then the whole picture in a tile's size. Without rows there is the whole only.
struct Tiles {
  uint32_t rows = 0, columns = 0;
  std::vector<Picture> pictures;
};
Tiles split_picture(const Picture& picture, const PictureSettings& settings);

// A tile's numbers, (patches, 3, patch, patch): patches row by row, each of patch x patch pixels. Pixels left over at
// the right and at the bottom are dropped.
std::vector<float> patches_of(const Picture& tile, const PictureSettings& settings, uint32_t patch);

// Text of a picture in the prompt of Idefics3 and SmolVLM. Each "<image>" is a row of the encoder; a tile has
// rows_per_tile of them.
std::string picture_text(const Tiles& tiles, uint32_t rows_per_tile);

}  // namespace weft
