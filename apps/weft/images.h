// Pictures in prompts: --image and --mmproj.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <weft/image.hpp>

#include "common.h"

namespace weft::cli {

struct ImageArgs {
  std::vector<std::string> files;
  std::string encoder;  // empty: the model's folder
};

void add_image_options(CLI::App* command, ImageArgs& args);

// Encodes pictures for a model. The encoder is loaded for the first one.
class Pictures {
 public:
  // All arguments outlive it.
  Pictures(const api::Model& model, const ModelArgs& model_args, const ImageArgs& args)
      : model_(model), model_args_(model_args), args_(args) {}

  api::Image encode(const std::string& file);
  std::vector<api::Image> encode_all();  // those of --image
  std::uint32_t token();                 // the id of "<image>"
  void use_duty(const api::Duty& duty);  // which outlives it

 private:
  api::ImageEncoder& encoder();

  const api::Model& model_;
  const ModelArgs& model_args_;
  const ImageArgs& args_;
  const api::Duty* duty_ = nullptr;
  std::optional<api::ImageEncoder> encoder_;
};

}  // namespace weft::cli
