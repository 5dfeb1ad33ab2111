// Writes down speech with Whisper (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision"):
// window by window of 30 seconds, each from where the text of the one before ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "session/session.h"
#include "session/word_times.h"
#include "sound/log_mel.h"
#include "sound/resampler.h"
#include "tokenizer/tokenizer.h"

namespace weft {

// The tokens that make a tokenizer Whisper's.
struct SpeechTokens {
  // Throws Error(unsupported) naming a token that the tokenizer lacks.
  SpeechTokens(const Tokenizer& tokenizer, const Config& config);

  uint32_t end, start, translate, transcribe, previous, no_speech;
  uint32_t first_time;  // of the timestamps, which are 20 ms apart
  uint32_t vocab;
  std::vector<std::pair<std::string, uint32_t>> languages;  // by code ("de"); empty: the model knows English only
};

// Which tokens may come next in a window: times in pairs that never go back, between them text. The first is a time of
// at most `latest`.
class SpeechRules : public TokenRules {
 public:
  SpeechRules(const SpeechTokens& tokens, const SpeechConfig& config);

  const TokenSet& allowed() override;
  void accept(uint32_t id) override;
  size_t look_ahead(std::span<const uint32_t>, const OnAllowed&) override { return 0; }
  bool finished() override { return false; }
  void reset() override;
  uint32_t timestamps() const override { return tokens_.first_time; }

 private:
  bool is_time(uint32_t id) const { return id >= tokens_.first_time; }

  SpeechTokens tokens_;
  uint32_t latest_;
  std::vector<uint32_t> text_;  // bits of the tokens that are text
  size_t count_ = 0;            // of the window's tokens
  uint32_t last_ = 0, before_ = 0;
  std::optional<uint32_t> time_;  // the last one
  TokenSet allowed_;
};

// A stretch of speech.
struct SpeechSegment {
  double begin = 0, end = 0;  // seconds
  std::string text;           // UTF-8, as the model writes it: most begin with a space
  std::vector<uint32_t> ids;  // with the times around the text
  // Mean of the logarithms of the probabilities of the window's tokens, its end included; and the probability that
  // nobody speaks in the window.
  double mean_logprob = 0, no_speech = 0;
  std::vector<SpeechWord> words;  // if asked for
};

struct SpeechOptions {
  std::string language;    // a code; empty: the model's default, or found by the first window that is not silent
  bool translate = false;  // to English, which the model's default may be, too
  std::string prompt;      // text that comes before the recording
  uint32_t rate = kSampleRate;
  // Tried in turn until a window's text seems right: likely enough, and without too many repetitions (4.5 of the
  // paper).
  std::vector<float> temperatures = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1};
  bool words = false;  // segments have their words, with times
};

// Bytes of a text for each byte that DEFLATE packs it into, with its fixed code. 0 for an empty text.
double compression_ratio(const std::string& text);

// One thread at a time. The model and the tokenizer outlive it.
class SpeechReader {
 public:
  // Throws Error(unsupported) for a model that does not hear.
  SpeechReader(const Model& model, const Tokenizer& tokenizer);

  // A recording, in pieces: begin(), feed() as often as there are samples, finish(). feed() and finish() tell segment
  // by segment; `on_segment` returns false to stop. The segments do not depend on the pieces. The recording ends with
  // finish(), with a stop, and with an error of anything but the samples.
  // begin() throws Error(invalid_argument) for options that are out of range, and for a language or a translation that
  // the model does not know; the others for samples that are not finite, and without a recording that has begun.
  using OnSegment = std::function<bool(const SpeechSegment&)>;
  void begin(const SpeechOptions& wanted);
  void feed(std::span<const float> samples, const OnSegment& on_segment);
  void finish(const OnSegment& on_segment);
  // feed() and finish(); and all three.
  void hear(std::span<const float> samples, const OnSegment& on_segment);
  void read(std::span<const float> samples, const SpeechOptions& options, const OnSegment& on_segment);

  // The language of the recording, or of the last one; empty until it is known.
  const std::string& language() const { return language_; }
  Session& session() { return session_; }
  // Has the work keep to the limit, in small submissions; nullptr: no longer.
  void keep_to(std::shared_ptr<DutyLimit> limit) { session_.duty().keep_to(std::move(limit)); }
  // From anywhere: the recording then ends before its next segment.
  void cancel() { session_.cancel(); }
  // Forgets one that came when nothing was heard.
  void clear_cancel() { session_.clear_cancel(); }
  bool cancelled() const { return cancelled_; }  // the last recording was

 private:
  struct Window {
    std::vector<uint32_t> ids;  // without the end
    double mean_logprob = 0, no_speech = 0;
    float temperature = 0;
  };
  struct Recording {
    SpeechOptions options;
    Resampler resampler;
    MelFrames frames;
    float loudest;                  // power of the frames up to `measured`
    size_t measured = 0, next = 0;  // frames; the next window's first one
    std::vector<uint32_t> before;   // tokens of the prompt and of earlier windows, with their times
    double last_word_end = 0;       // seconds
  };
  using Frames = std::shared_ptr<const std::vector<float>>;
  Recording& recording();
  void read_windows(const OnSegment& on_segment);
  bool read_window(Recording& recording, size_t& count, const OnSegment& on_segment);
  Frames window_at(Recording& recording, size_t count) const;
  std::vector<float> start_logits(const Frames& frames, std::span<const uint32_t> before);
  std::string find_language(const Frames& frames);
  std::vector<uint32_t> start_ids(const std::string& language, const SpeechOptions& options) const;
  Window decode(const Frames& frames, const Recording& recording);
  void decode_at(Window& window, const Frames& frames, std::span<const uint32_t> ids);
  std::string text_of(std::span<const uint32_t> ids) const;
  std::vector<SpeechSegment> cut(const Window& window, size_t offset, size_t& frames) const;
  void add_words(std::vector<SpeechSegment>& segments, const Frames& frames, size_t count, Recording& recording);

  const Model& model_;
  const Tokenizer& tokenizer_;
  SpeechTokens tokens_;
  std::vector<SourceHead> aligned_heads_;  // that follow the words
  Session session_;
  std::optional<Recording> recording_;
  std::string language_;
  bool cancelled_ = false;
};

}  // namespace weft
