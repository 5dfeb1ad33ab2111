#include "images.h"

namespace weft::cli {

void add_image_options(CLI::App* command, ImageArgs& args) {
  command
      ->add_option("--image", args.files,
                   "PNG or JPEG file that the prompt shows, for models such as SmolVLM, Gemma 3 and Qwen3-VL; may be "
                   "given several times")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--mmproj", args.encoder,
                   "the encoder of pictures: llama.cpp's GGUF file of it, or a Hugging Face folder; without it, the\n"
                   "model's own folder")
      ->type_name("FILE");
}

api::ImageEncoder& Pictures::encoder() {
  if (!encoder_) {
    encoder_.emplace(model_, args_.encoder.empty() ? model_path(model_args_.model) : args_.encoder);
    if (duty_) encoder_->use_duty(*duty_);
  }
  return *encoder_;
}

void Pictures::use_duty(const api::Duty& duty) {
  duty_ = &duty;
  if (encoder_) encoder_->use_duty(duty);
}

api::Image Pictures::encode(const std::string& file) { return encoder().encode(file); }

std::vector<api::Image> Pictures::encode_all() {
  std::vector<api::Image> images;
  for (const std::string& file : args_.files) images.push_back(encode(file));
  return images;
}

std::uint32_t Pictures::token() { return encoder().token(); }

}  // namespace weft::cli
