// Turns tiles of pictures into rows that a text model reads as soft tokens: a vision transformer (Dosovitskiy et al.
// 2020; SigLIP's, Zhai et al. 2023), then neighbouring patches as one (pixel shuffle, Shi et al. 2016, the other way
// round), as their mean (Gemma 3), or as a feed-forward merges them (Qwen3-VL), with the text model's width.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "image/picture.h"
#include "model/image_config.h"
#include "run/duty.h"
#include "run/encoder.h"

namespace weft {

// Constant after loading. Stays where it is: encoders refer to it.
struct ImageModel {
  ImageConfig config;
  Model network;
  ImageEnds ends;

  uint64_t bytes() const;  // of the device's memory
};

// Loads a file of open_image_model. Throws as read_image_config and load_weights.
std::unique_ptr<const ImageModel> load_image_model(const std::shared_ptr<Device>& device, const ModelFile& file,
                                                   const DeviceFormats& formats);

// The rows that a text model reads for a tile.
struct EncodedTile {
  uint32_t height = 0, width = 0;  // of the grid of rows
  std::vector<float> rows;         // (height, width, text_width)
  std::vector<float> deepstack;    // merged: (ImageConfig::deepstack, height, width, text_width)
};

// One thread at a time. The model and the duty, whose work it is, outlive it.
class ImageEncoder {
 public:
  explicit ImageEncoder(const ImageModel& model, Duty* duty = nullptr);
  ~ImageEncoder();

  // Encodes a picture that split_picture made. Throws Error(invalid_argument) for one of other sides.
  EncodedTile encode(const Picture& tile);
  uint64_t bytes() const;

 private:
  struct Passes;
  struct Grid {
    uint32_t height, width;  // in patches
  };
  void write_positions(const Grid& grid);
  void join_neighbours(const Grid& grid);
  void pool_neighbours(const Grid& grid);
  std::vector<float> project(const PatchMerger* merger, uint32_t rows);

  const ImageModel& model_;
  Duty* duty_;                      // nullptr: none
  std::unique_ptr<Passes> passes_;  // of the last tile's number of patches
};

}  // namespace weft
