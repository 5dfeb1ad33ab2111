// From a picture to what a vision encoder reads, and to the text around it: those of Idefics3 and SmolVLM (Laurencon et
// al. 2024, "Building and better understanding vision-language models"; Marafioti et al. 2025, "SmolVLM"), of Gemma 3
// (Gemma Team 2025, "Gemma 3 Technical Report"), and of Qwen3-VL (Qwen Team 2025, "Qwen3-VL Technical Report").
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "image/picture.h"

namespace weft {

// How a model's pictures are prepared: the values of preprocessor_config.json.
struct PictureSettings {
  uint32_t longest_edge = 0;  // in pixels; the first size a picture gets
  uint32_t tile = 0;          // side of a tile in pixels
  bool split = true;          // a picture becomes tiles and the whole; else the whole alone
  bool square = false;        // Gemma 3: it becomes one tile, whatever its sides, by another filter
  // Qwen3-VL: a picture becomes one tile that keeps its shape. Its sides are multiples of `step`, and it has so many
  // pixels. 0: tiles of one size.
  uint32_t step = 0;
  uint64_t least_pixels = 1, most_pixels = 0;
  double scale = 1.0 / 255;                                                        // of a channel's value
  std::array<float, 3> mean = {0.5f, 0.5f, 0.5f}, deviation = {0.5f, 0.5f, 0.5f};  // of the scaled values, by channel
};

// The sides that a picture gets with settings.step. Throws Error(unsupported) for one that is more than 200 times as
// long as the other.
std::pair<uint32_t, uint32_t> stepped_size(uint32_t width, uint32_t height, const PictureSettings& settings);

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
