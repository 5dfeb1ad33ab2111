#include "hearing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "recording.h"
#include "subtitles.h"

namespace weft::cli {
namespace {

// Frames of 20 ms.
constexpr std::uint32_t kFramesPerSecond = 50;
constexpr std::size_t kPauseFrames = 40, kVoicedFrames = 5, kBeforeFrames = 15,
                      kUtteranceFrames = 30 * kFramesPerSecond;
constexpr double kLoudFrame = 0.01;

// Root of the mean square, without a constant part, which cheap microphones have.
double loudness(const std::vector<float>& frame) {
  double sum = 0, squares = 0;
  for (const float sample : frame) sum += sample, squares += double{sample} * sample;
  const double count = static_cast<double>(frame.size()), mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean));
}

ModelArgs for_hearing(ModelArgs args, const std::string& model) {
  args.model = model;
  return args;
}

}  // namespace

Utterances::Utterances(std::uint32_t rate, OnUtterance on_utterance)
    : on_utterance_(std::move(on_utterance)), frame_size_(rate / kFramesPerSecond) {}

void Utterances::feed(const std::vector<float>& samples) {
  for (const float sample : samples) {
    frame_.push_back(sample);
    if (frame_.size() == frame_size_) add_frame();
  }
}

void Utterances::add_frame() {
  const bool loud = loudness(frame_) > kLoudFrame;
  said_.insert(said_.end(), frame_.begin(), frame_.end());
  frame_.clear();
  if (loud) ++voiced_;
  quiet_ = loud ? 0 : quiet_ + 1;
  if (voiced_ > 0 && (quiet_ >= kPauseFrames || said_.size() >= kUtteranceFrames * frame_size_)) finish();
  if (const std::size_t most = kBeforeFrames * frame_size_; voiced_ == 0 && said_.size() > most)
    said_.erase(said_.begin(), said_.end() - static_cast<std::ptrdiff_t>(most));
}

void Utterances::finish() {
  const std::vector<float> said = std::exchange(said_, {});
  if (std::exchange(voiced_, 0) >= kVoicedFrames) on_utterance_(said);
}

Ear::Ear(ModelArgs args, const std::string& model)
    : model_(load_model(for_hearing(std::move(args), model))), listener_(model_) {}

std::string Ear::hear(const std::string& path) {
  std::string text;
  read_recording(
      path,
      [&](const RecordingInfo& recording) {
        listener_.begin({.samples_per_second = recording.rate},
                        [&](const weft_heard& heard) { return text += heard.text, true; });
      },
      [&](const std::vector<float>& samples) { listener_.feed(samples); });
  listener_.finish();
  return one_line(text);
}

void Ear::hear_each(const std::function<void(const std::string& text)>& on_text) {
  std::optional<Utterances> utterances;
  const auto begin = [&](const RecordingInfo& recording) {
    const std::uint32_t rate = recording.rate;
    utterances.emplace(rate, [&, rate](const std::vector<float>& samples) {
      std::string text;
      listener_.listen(samples, {.samples_per_second = rate},
                       [&](const weft_heard& heard) { return text += heard.text, true; });
      on_text(one_line(text));
    });
  };
  read_recording("-", begin, [&](const std::vector<float>& samples) { utterances->feed(samples); });
  utterances->finish();
}

}  // namespace weft::cli
