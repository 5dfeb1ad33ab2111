#include "session/speech.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "base/error.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

namespace weft {
namespace {

constexpr double kFramesPerSecond = 100;
constexpr size_t kFramesPerTime = 2;            // between timestamps
constexpr double kSilence = 0.6, kUnsure = -1;  // no_speech above and mean_logprob not above: a window without speech
constexpr double kRepetitive = 2.1;  // compression_ratio of a text that repeats itself; zlib packs it 2.4 times
constexpr float kForgetful = 0.5f;   // a temperature above: the text is no prompt for the next window
constexpr float kInaudible = -6;     // power of silence: a tone of two steps of 16 bits has more

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

// The heads that follow the words: those that the file names, else all of the upper half of the layers.
std::vector<SourceHead> aligned_heads(const Config& config) {
  std::vector<SourceHead> heads;
  for (const auto& [layer, head] : config.speech->aligned_heads)  // distilled models may have their teacher's list
    if (layer < config.layers && head < config.heads.heads) heads.push_back({layer, head});
  if (!heads.empty()) return heads;
  for (uint32_t layer = config.layers / 2; layer < config.layers; ++layer)
    for (uint32_t head = 0; head < config.heads.heads; ++head) heads.push_back({layer, head});
  return heads;
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
      aligned_heads_(aligned_heads(model.config)),
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

double compression_ratio(const std::string& text) {
  if (text.empty()) return 0;
  std::string copy = text;  // the packer takes mutable bytes
  int size = 0;
  const std::unique_ptr<unsigned char, decltype(&std::free)> packed(
      stbi_zlib_compress(reinterpret_cast<unsigned char*>(copy.data()), static_cast<int>(copy.size()), &size, 8),
      std::free);
  return packed ? static_cast<double>(text.size()) / size : 0;
}

std::string SpeechReader::text_of(std::span<const uint32_t> ids) const {
  std::vector<uint32_t> text;
  std::ranges::copy_if(ids, std::back_inserter(text), [&](uint32_t id) { return id < tokens_.end; });
  return tokenizer_.decode(text);
}

// Generates the window's tokens after `ids` at its temperature.
void SpeechReader::decode_at(Window& window, const Frames& frames, std::span<const uint32_t> ids) {
  Sampling sampling;
  sampling.temperature = window.temperature;
  sampling.top_k = 0;
  sampling.top_p = 1;
  sampling.min_p = 0;
  session_.set_sampling(sampling);
  session_.set_matcher(std::make_unique<SpeechRules>(tokens_, *model_.config.speech));
  session_.prompt_sound(frames, ids);
  const uint32_t most =
      std::min<uint32_t>(session_.context() / 2, session_.context() - static_cast<uint32_t>(ids.size()));
  double logprobs = 0;
  window.ids.clear();
  const Stop stop = session_.generate(most, false, [&](uint32_t id) {
    logprobs += session_.logprobs().chosen;
    if (id != tokens_.end) window.ids.push_back(id);
    return true;
  });
  cancelled_ = session_.clear_cancel() || stop == Stop::caller;
  window.mean_logprob = logprobs / (static_cast<double>(window.ids.size()) + 1);
}

// The first of the temperatures whose text seems right; else the likeliest of the texts without many repetitions, or of
// all.
SpeechReader::Window SpeechReader::decode(const Frames& frames, const Recording& recording) {
  std::vector<uint32_t> ids;
  const size_t kept = std::min(recording.before.size(), size_t{session_.context()} / 2 - 1);
  if (kept > 0) ids.push_back(tokens_.previous);
  ids.insert(ids.end(), recording.before.end() - static_cast<ptrdiff_t>(kept), recording.before.end());
  Window window, best;
  const std::vector<float> logits = start_logits(frames, ids);
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  window.no_speech = std::exp(logits[tokens_.no_speech] - peak) / sum;
  const std::vector<uint32_t> start = start_ids(language_, recording.options);
  ids.insert(ids.end(), start.begin(), start.end());

  std::pair<bool, double> best_rank = {false, -INFINITY};
  for (const float temperature : recording.options.temperatures) {
    window.temperature = temperature;
    decode_at(window, frames, ids);
    const bool varied = compression_ratio(text_of(window.ids)) <= kRepetitive, likely = window.mean_logprob >= kUnsure;
    const bool silent = !likely && window.no_speech > kSilence;
    if (cancelled_ || silent || (varied && likely)) return window;
    const std::pair rank(varied, window.mean_logprob);
    if (rank <= best_rank && !best.ids.empty()) continue;
    best_rank = rank;
    best = window;
  }
  return best;
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
    SpeechSegment segment = {seconds(from), seconds(to), {}, {}, window.mean_logprob, window.no_speech, {}};
    segment.ids.assign(ids.begin() + static_cast<ptrdiff_t>(first), ids.begin() + static_cast<ptrdiff_t>(end));
    segment.text = text_of(segment.ids);
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

// count: frames of the window that are not padding. The context becomes the segments' text without times.
void SpeechReader::add_words(std::vector<SpeechSegment>& segments, const Frames& frames, size_t count, Recording& r) {
  std::vector<uint32_t> text, ids = start_ids(language_, r.options);
  std::vector<WordTokens> split;
  std::vector<size_t> counts;  // tokens of text, by segment
  for (const SpeechSegment& segment : segments) {
    const size_t begin = text.size();
    std::ranges::copy_if(segment.ids, std::back_inserter(text), [&](uint32_t id) { return id < tokens_.end; });
    const auto own = std::span(text).subspan(begin);
    std::ranges::move(split_words(tokenizer_, own, writes_without_spaces(language_)), std::back_inserter(split));
    counts.push_back(own.size());
  }
  if (text.empty()) return;
  const size_t first = ids.size();  // the position that the first token of the text is read after
  ids.push_back(tokens_.first_time - 1);
  ids.insert(ids.end(), text.begin(), text.end());
  ids.push_back(tokens_.end);
  session_.set_matcher(nullptr);
  session_.prompt_sound(frames, ids);
  const size_t positions = std::max<size_t>(count / kFramesPerPosition, 1);
  WordAlignment alignment(ids.size(), positions);
  session_.source_attention(aligned_heads_, positions, [&](std::span<float> weights) { alignment.add(weights); });
  std::vector<double> times;
  for (const size_t position : alignment.path(first, ids.size() - 1))
    times.push_back(static_cast<double>(r.next + position * kFramesPerPosition) / kFramesPerSecond);
  WindowWords words(split, times);
  for (size_t i = 0; i < segments.size(); ++i)
    segments[i].words = words.take(counts[i], segments[i].begin, segments[i].end, r.last_word_end);
}

void SpeechReader::begin(const SpeechOptions& wanted) {
  SpeechOptions options = wanted;
  if (options.language.empty()) options.language = model_.config.speech->language;
  options.translate |= model_.config.speech->translate;
  recording_.reset();
  cancelled_ = false;
  language_.clear();
  require(options.rate >= Resampler::kLowestRate && options.rate <= Resampler::kHighestRate, "samples_per_second",
          "it is not between 1000 and 768000");
  require(!options.temperatures.empty() &&
              std::ranges::all_of(options.temperatures, [](float t) { return t >= 0 && t <= 2; }),
          "temperatures", "they are not between 0 and 2");
  if (!options.language.empty()) start_ids(options.language, options);  // refuses before the work
  language_ = options.language;
  std::vector<uint32_t> before;
  if (const size_t first = options.prompt.find_first_not_of(" \t\r\n"); first != std::string::npos)
    before = tokenizer_.encode(
        " " + options.prompt.substr(first, options.prompt.find_last_not_of(" \t\r\n") + 1 - first), Special::plain);
  recording_.emplace(Recording{options, Resampler(options.rate), MelFrames(model_.config.encoder->bands), -10, 0, 0,
                               std::move(before), 0});
}

SpeechReader::Recording& SpeechReader::recording() {
  require(recording_.has_value(), "recording", "none has begun");
  return *recording_;
}

void SpeechReader::feed(std::span<const float> samples, const OnSegment& on_segment) {
  Recording& r = recording();
  require(std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }), "samples",
          "they are not all finite");
  // A piece is heard before the next one is resampled, so that a long recording does not take more memory.
  const size_t piece = r.options.rate;  // read_windows destroys the recording if the callback stops it
  for (size_t begin = 0; begin < samples.size() && recording_; begin += piece) {
    r.frames.feed(r.resampler.feed(samples.subspan(begin, std::min(piece, samples.size() - begin))));
    read_windows(on_segment);
  }
}

void SpeechReader::finish(const OnSegment& on_segment) {
  Recording& r = recording();
  r.frames.feed(r.resampler.finish());
  r.frames.finish();
  read_windows(on_segment);
  recording_.reset();
  if (language_.empty()) language_ = "en";
}

void SpeechReader::hear(std::span<const float> samples, const OnSegment& on_segment) {
  feed(samples, on_segment);
  if (recording_) finish(on_segment);
}

void SpeechReader::read(std::span<const float> samples, const SpeechOptions& options, const OnSegment& on_segment) {
  begin(options);
  hear(samples, on_segment);
}

// Reads the windows whose frames are known.
void SpeechReader::read_windows(const OnSegment& on_segment) {
  Recording& r = *recording_;
  const size_t most = size_t{kFramesPerPosition} * model_.config.encoder->context;
  try {
    for (;;) {
      const size_t end = r.frames.finished() ? r.frames.count() - 1 : r.frames.count();  // the last one is no sound
      if (r.next >= end || (end - r.next < most && !r.frames.finished())) return;
      size_t count = std::min(most, end - r.next);
      if (!read_window(r, count, on_segment)) break;
      r.next += count;
      r.frames.forget(r.next);
    }
  } catch (...) {
    recording_.reset();
    throw;
  }
  recording_.reset();
}

// Tells what is said in the window of the next `count` frames, which become those up to where the next window begins.
// Returns false to stop.
bool SpeechReader::read_window(Recording& r, size_t& count, const OnSegment& on_segment) {
  const Frames frames = window_at(r, count);
  cancelled_ = session_.clear_cancel();
  if (cancelled_) return false;
  if (*std::ranges::max_element(r.frames.at(r.next, count)) < kInaudible) return true;
  if (language_.empty()) language_ = find_language(frames);
  const Window window = decode(frames, r);
  if (cancelled_) return false;
  if (window.no_speech > kSilence && window.mean_logprob <= kUnsure) return true;
  const size_t heard = count;
  std::vector<SpeechSegment> segments = cut(window, r.next, count);
  if (r.options.words) add_words(segments, frames, heard, r);
  for (const SpeechSegment& segment : segments) {
    r.before.insert(r.before.end(), segment.ids.begin(), segment.ids.end());
    if (!on_segment(segment)) return false;
  }
  if (window.temperature > kForgetful) r.before.clear();
  return true;
}

// The frames of the next window as the encoder takes them. The loudest power is that of the recording up to the
// window's end, so that it does not depend on what comes after.
SpeechReader::Frames SpeechReader::window_at(Recording& r, size_t count) const {
  const uint32_t bands = model_.config.encoder->bands;
  const bool last = r.frames.finished() && r.next + count + 1 == r.frames.count();
  const size_t measured = r.next + count + (last ? 1 : 0);
  if (measured > r.measured)
    r.loudest = std::max(r.loudest, *std::ranges::max_element(r.frames.at(r.measured, measured - r.measured)));
  r.measured = std::max(r.measured, measured);
  auto frames =
      std::make_shared<std::vector<float>>(size_t{kFramesPerPosition} * model_.config.encoder->context * bands);
  hear_powers(r.frames.at(r.next, count), r.loudest, *frames);
  return frames;
}

}  // namespace weft
