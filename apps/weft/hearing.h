// The ear of `weft chat`: what a person says, as text.
#pragma once

#include <functional>
#include <string>
#include <vector>
#include <weft/audio.hpp>

#include "common.h"

namespace weft::cli {

// Cuts samples into what is said between pauses of 0.8 s. Sound is speech if it is louder than -40 dB of full scale for
// at least 0.1 s.
class Utterances {
 public:
  using OnUtterance = std::function<void(const std::vector<float>& samples)>;
  Utterances(std::uint32_t rate, OnUtterance on_utterance);
  void feed(const std::vector<float>& samples);
  void finish();

 private:
  void add_frame();

  OnUtterance on_utterance_;
  std::size_t frame_size_;              // samples of 20 ms
  std::vector<float> frame_, said_;     // the frame that is not whole; what was said, and a little before it
  std::size_t voiced_ = 0, quiet_ = 0;  // frames of `said_`: loud ones; those since the last loud one
};

class Ear {
 public:
  // Loads a Whisper model with the other options of args.
  Ear(ModelArgs args, const std::string& model);

  // Text of a recording, in one line; "-": stdin. Empty if nothing was understood.
  std::string hear(const std::string& path);
  // Text of what is said on stdin between pauses, one after the other, while it comes.
  void hear_each(const std::function<void(const std::string& text)>& on_text);

  void use_duty(const api::Duty& duty) { listener_.use_duty(duty); }
  weft_model_info info() const { return model_.info(); }

 private:
  api::Model model_;
  api::Listener listener_;
};

}  // namespace weft::cli
