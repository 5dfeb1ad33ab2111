#include "session/speech.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "sound/log_mel.h"

namespace weft {
namespace {

constexpr double kFramesPerSecond = 100;
constexpr size_t kFramesPerTime = 2;            // between timestamps
constexpr double kSilence = 0.6, kUnsure = -1;  // no_speech above and mean_logprob not above: a window without speech

uint32_t id_of(const Tokenizer& tokenizer, std::initializer_list<const char*> spellings) {
  for (const char* spelling : spellings) {
    const std::vector<uint32_t> ids = tokenizer.encode(spelling, Special::parse);
    if (ids.size() == 1 && tokenizer.is_control(ids[0])) return ids[0];
  }
  throw Error(Code::unsupported, std::string("the vocabulary has no token '") + *spellings.begin() + "'", "model",
              "take the tokenizer that belongs to the model");
}

const Model& checked(const Model& model) {
  if (!model.config.hears())
    throw Error(Code::unsupported, "the family '" + model.config.family + "' hears nothing", "model",
                "use a Whisper model");
  return model;
}

}  // namespace

SpeechTokens::SpeechTokens(const Tokenizer& tokenizer, const Config& config)
    : end(id_of(tokenizer, {"<|endoftext|>"})),
      start(id_of(tokenizer, {"<|startoftranscript|>"})),
      translate(id_of(tokenizer, {"<|translate|>"})),
      transcribe(id_of(tokenizer, {"<|transcribe|>"})),
      previous(id_of(tokenizer, {"<|startofprev|>"})),
      no_speech(id_of(tokenizer, {"<|nospeech|>", "<|nocaptions|>"})),
      first_time(id_of(tokenizer, {"<|notimestamps|>"}) + 1),
      vocab(config.vocab) {
  if (end >= first_time || first_time >= vocab)
    throw Error(Code::unsupported, "the timestamps are not the last tokens of the vocabulary", "model");
  // English models have the languages' tokens too, and the same number of rows but one.
  if (!config.speech->multilingual) return;
  for (uint32_t id = start + 1; id < std::min(translate, transcribe); ++id)
    if (const std::string& name = tokenizer.spelling(id);
        name.size() > 4 && name.starts_with("<|") && name.ends_with("|>"))
      languages.emplace_back(name.substr(2, name.size() - 4), id);
}

SpeechRules::SpeechRules(const SpeechTokens& tokens, const SpeechConfig& config)
    : tokens_(tokens), latest_(config.latest_first_time), text_((tokens.vocab + 31) / 32) {
  for (uint32_t id = 0; id < tokens_.end; ++id) text_[id / 32] |= 1u << (id % 32);
  for (const uint32_t id : config.suppressed)
    if (id < tokens_.end) text_[id / 32] &= ~(1u << (id % 32));
}

void SpeechRules::reset() {
  count_ = 0;
  time_.reset();
}

void SpeechRules::accept(uint32_t id) {
  before_ = last_;
  last_ = id;
  ++count_;
  if (is_time(id)) time_ = id;
}

const TokenSet& SpeechRules::allowed() {
  const bool begins = count_ == 0, after_time = !begins && is_time(last_);
  const bool open = after_time && count_ > 1 && !is_time(before_);  // a time that ended a text: one must follow
  const bool text = !begins && !open, times = !after_time || open;
  uint32_t first = tokens_.first_time, end = tokens_.vocab;
  if (begins) end = std::min(end, first + latest_ + 1);
  if (time_) first = open ? *time_ : *time_ + 1;
  allowed_.bits.assign(text_.size(), 0);
  if (text) allowed_.bits = text_;
  const auto allow = [&](uint32_t id) { allowed_.bits[id / 32] |= 1u << (id % 32); };
  if (!begins) allow(tokens_.end);
  for (uint32_t id = first; times && id < end; ++id) allow(id);
  allowed_.count = 0;
  for (const uint32_t word : allowed_.bits) allowed_.count += static_cast<uint32_t>(std::popcount(word));
  allowed_.ids.clear();
  if (allowed_.count <= TokenSet::kMaxListed)
    for (uint32_t id = 0; id < tokens_.vocab; ++id)
      if (allowed_.contains(id)) allowed_.ids.push_back(id);
  return allowed_;
}

SpeechReader::SpeechReader(const Model& model, const Tokenizer& tokenizer)
    : model_(checked(model)),
      tokenizer_(tokenizer),
      tokens_(tokenizer, model.config),
      session_(model, model.config.context, {tokens_.end}) {
  Sampling greedy;
  greedy.temperature = 0;
  session_.set_sampling(greedy);
  session_.set_logprobs(1);
}

// The logits after the token that starts a window. before: what the prompt has before it.
std::vector<float> SpeechReader::start_logits(const Frames& frames, std::span<const uint32_t> before) {
  std::vector<uint32_t> ids(before.begin(), before.end());
  ids.push_back(tokens_.start);
  session_.set_matcher(nullptr);
  session_.prompt_sound(frames, ids);
  return session_.logits();
}

std::string SpeechReader::find_language(const Frames& frames) {
  if (tokens_.languages.empty()) return "en";
  const std::vector<float> logits = start_logits(frames, {});
  return std::ranges::max_element(tokens_.languages, {}, [&](const auto& language) { return logits[language.second]; })
      ->first;
}

std::vector<uint32_t> SpeechReader::start_ids(const std::string& language, const SpeechOptions& options) const {
  const auto found =
      std::ranges::find_if(tokens_.languages, [&](const auto& known) { return known.first == language; });
  if (tokens_.languages.empty()) {
    if (language != "en" || options.translate)
      throw Error(Code::invalid_argument, "the model knows English only", "language", "use a multilingual Whisper");
    return {tokens_.start};
  }
  if (found == tokens_.languages.end())
    throw Error(Code::invalid_argument, "the model knows no language '" + language + "'", "language",
                "give a code such as en, de or ja");
  return {tokens_.start, found->second, options.translate ? tokens_.translate : tokens_.transcribe};
}

SpeechReader::Window SpeechReader::decode(const Frames& frames, std::span<const uint32_t> before,
                                          std::span<const uint32_t> start) {
  Window window;
  const std::vector<float> logits = start_logits(frames, before);
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  window.no_speech = std::exp(logits[tokens_.no_speech] - peak) / sum;

  std::vector<uint32_t> ids(before.begin(), before.end());
  ids.insert(ids.end(), start.begin(), start.end());
  session_.set_matcher(std::make_unique<SpeechRules>(tokens_, *model_.config.speech));
  session_.prompt_sound(frames, ids);
  const uint32_t most =
      std::min<uint32_t>(session_.context() / 2, session_.context() - static_cast<uint32_t>(ids.size()));
  double logprobs = 0;
  const Stop stop = session_.generate(most, false, [&](uint32_t id) {
    logprobs += session_.logprobs().chosen;
    if (id != tokens_.end) window.ids.push_back(id);
    return true;
  });
  cancelled_ = stop == Stop::caller;
  window.mean_logprob = logprobs / (static_cast<double>(window.ids.size()) + 1);
  return window;
}

// Cuts a window's tokens where two times follow each other. offset: the window's first frame. frames: those of the
// window, which become those up to where the next window begins.
std::vector<SpeechSegment> SpeechReader::cut(const Window& window, size_t offset, size_t& frames) const {
  const std::vector<uint32_t>& ids = window.ids;
  const auto is_time = [&](size_t i) { return ids[i] >= tokens_.first_time; };
  const auto frame_of = [&](uint32_t time) { return (time - tokens_.first_time) * kFramesPerTime; };
  const auto seconds = [&](size_t frame) { return static_cast<double>(offset + frame) / kFramesPerSecond; };
  const bool ends_in_silence = ids.size() >= 2 && !is_time(ids.size() - 2) && is_time(ids.size() - 1);
  std::vector<SpeechSegment> segments;
  const auto add = [&](size_t first, size_t end, size_t from, size_t to) {
    SpeechSegment segment = {seconds(from), seconds(to), {}, {}, window.mean_logprob, window.no_speech};
    segment.ids.assign(ids.begin() + static_cast<ptrdiff_t>(first), ids.begin() + static_cast<ptrdiff_t>(end));
    std::vector<uint32_t> text;
    std::ranges::copy_if(segment.ids, std::back_inserter(text), [&](uint32_t id) { return id < tokens_.end; });
    segment.text = tokenizer_.decode(text);
    const bool blank = segment.text.find_first_not_of(" \t\r\n") == std::string::npos;
    if (segment.begin < segment.end && !blank) segments.push_back(std::move(segment));
  };
  size_t first = 0;
  for (size_t i = 1; i <= ids.size(); ++i) {
    const bool here = i < ids.size() ? is_time(i) && is_time(i - 1) : first > 0 && ends_in_silence;
    if (!here) continue;
    add(first, i, frame_of(ids[first]), frame_of(ids[i - 1]));
    first = i;
  }
  if (first == 0) {  // one segment, whose last time is its end
    const auto last =
        std::ranges::find_if(ids.rbegin(), ids.rend(), [&](uint32_t id) { return id >= tokens_.first_time; });
    const bool known = last != ids.rend() && *last != tokens_.first_time;
    add(0, ids.size(), 0, known ? frame_of(*last) : frames);
  } else if (!ends_in_silence) {  // the text goes on after the window: the next one begins there
    frames = std::min(frames, frame_of(ids[first - 1]));
  }
  return segments;
}

std::string SpeechReader::read(std::span<const float> samples, const SpeechOptions& options,
                               const OnSegment& on_segment) {
  cancelled_ = false;
  const uint32_t bands = model_.config.encoder->bands;
  const size_t most = size_t{kFramesPerPosition} * model_.config.encoder->context;
  if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
    throw Error(Code::invalid_argument, "they are not all finite", "samples");
  if (!options.language.empty()) start_ids(options.language, options);  // refuses before the work
  const Spectrogram sound = log_mel(samples, bands);
  const auto window_at = [&](size_t frame, size_t count) {
    auto frames = std::make_shared<std::vector<float>>(most * bands);
    std::copy_n(sound.frames.begin() + static_cast<ptrdiff_t>(frame * bands), count * bands, frames->begin());
    return frames;
  };
  std::string language = options.language;
  std::vector<uint32_t> before;  // of earlier windows, with their times
  const size_t end = sound.count() - 1;
  for (size_t frame = 0; frame < end;) {
    size_t count = std::min(most, end - frame);
    const Frames frames = window_at(frame, count);
    if (language.empty()) language = find_language(frames);
    std::vector<uint32_t> prompt;
    const size_t kept = std::min(before.size(), size_t{session_.context()} / 2 - 1);
    if (kept > 0) prompt.push_back(tokens_.previous);
    prompt.insert(prompt.end(), before.end() - static_cast<ptrdiff_t>(kept), before.end());
    const Window window = decode(frames, prompt, start_ids(language, options));
    if (cancelled_) break;
    if (window.no_speech <= kSilence || window.mean_logprob > kUnsure)
      for (const SpeechSegment& segment : cut(window, frame, count)) {
        before.insert(before.end(), segment.ids.begin(), segment.ids.end());
        if (!on_segment(segment)) return language;
      }
    frame += count;
  }
  return language.empty() ? "en" : language;
}

}  // namespace weft
