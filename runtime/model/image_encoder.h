// Turns tiles of pictures into rows that a text model reads as soft tokens: a vision transformer (Dosovitskiy et al.
// 2020; SigLIP's, Zhai et al. 2023), then neighbouring patches as one (pixel shuffle, Shi et al. 2016, the other way
// round) or as their mean (Gemma 3), projected to the text model's width.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/encoder.h"
#include "model/image_config.h"

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

// One thread at a time. The model outlives it.
class ImageEncoder {
 public:
  explicit ImageEncoder(const ImageModel& model);

  // patches: of one tile, as patches_of has them. Returns rows (rows_per_tile, text_width).
  std::vector<float> encode(std::span<const float> patches);
  uint64_t bytes() const;

 private:
  void record_embed(Recorder& r) const;
  void join_neighbours();
  void pool_neighbours();

  const ImageModel& model_;
  uint32_t tokens_, rows_;  // of a tile, in whole chunks
  ActivationBuffers activations_;
  ContextState cache_;
  StepBuffers step_;
  Buffer pixels_;  // (tokens, pixels of a patch)
  Buffer states_;  // (tokens, width)
  Buffer joined_;  // (rows, width * neighbours), or (rows, width)
  Buffer normed_;  // (rows, width), if they are pooled
  Buffer result_;  // (rows, text_width)
  CommandPool pool_;
  std::vector<CommandBuffer> body_;
  CommandBuffer end_;
  SubmissionQueue queue_;
};

}  // namespace weft
