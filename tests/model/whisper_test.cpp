// Whisper's network against Hugging Face Transformers: tiny random models of tests/tools/whisper_goldens.py.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "session/speech.h"
#include "support/closeness.h"
#include "support/json_value.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;
using Frames = std::shared_ptr<const std::vector<float>>;

constexpr uint32_t kContext = 50;
constexpr double kTolerance = 2e-3;       // of f16's logits, in units of the spread
constexpr double kStateTolerance = 1e-3;  // of the encoder's states, which are about 1

std::filesystem::path golden_folder() { return source_folder() / "tests/model/golden_whisper"; }

// As whisper_goldens.py makes them. shift: of the time, for other frames.
Frames frames_for(const Config& config, double shift = 0) {
  const uint32_t bands = config.encoder->bands, count = kFramesPerPosition * config.encoder->context;
  std::vector<float> frames(size_t{count} * bands);
  for (uint32_t frame = 0; frame < count; ++frame)
    for (uint32_t band = 0; band < bands; ++band)
      frames[size_t{frame} * bands + band] =
          static_cast<float>(std::sin(0.7 * band + 0.05 * (frame + shift) * (1 + band % 7)));
  return std::make_shared<const std::vector<float>>(std::move(frames));
}

Ids generate_after(Session& session, const Frames& frames, const Ids& ids, size_t count) {
  session.prompt_sound(frames, ids);
  Ids written;
  session.generate(static_cast<uint32_t>(count), true, [&](uint32_t id) {
    written.push_back(id);
    return true;
  });
  return written;
}

class WhisperTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  std::filesystem::path folder_ = golden_folder() / GetParam();
  json golden_ = json::parse(std::ifstream(folder_ / "reference.json"));
};

TEST_P(WhisperTest, EncoderEqualsTransformers) {
  const auto model = load_model(open_device(), folder_, Format::f16);
  const Config& c = *model->config.encoder;
  Encoder encoder(*model->weights.encoder, c.context);
  encoder.hear(*frames_for(model->config, 50));  // whatever was heard before does not count
  encoder.hear(*frames_for(model->config));
  const std::vector<float> states = download_as<float>(model->device, encoder.activations().normed);
  double worst = 0;
  for (const auto& [position, want] : golden_["states"].items())
    for (uint32_t i = 0; i < c.width; ++i)
      worst = std::max(worst, std::abs(want[i].get<double>() - states[std::stoul(position) * stride_of(c.width) + i]));
  std::printf("states: %.1e\n", worst);
  EXPECT_LT(worst, kStateTolerance);
}

TEST_P(WhisperTest, DecoderEqualsTransformers) {
  const auto model = load_model(open_device(), folder_, Format::f16);
  const Frames frames = frames_for(model->config);
  Session session(*model, kContext, {});
  session.set_sampling(greedy());
  const Ids greedy = golden_["greedy"];
  const std::vector<double> leads = golden_["leads"];
  Ids context = {model->config.start_token};
  double worst = 0;
  for (size_t i = 0; i < golden_["positions"].size(); ++i) {
    Ids ids = context;
    ids.insert(ids.end(), greedy.begin(), greedy.begin() + golden_["positions"][i].get<int>());
    session.prompt_sound(frames, ids);
    worst = std::max(worst, distance(golden_["logits"][i], session.logits()));
  }
  std::printf("logits: %.1e of the spread\n", worst);
  EXPECT_LT(worst, kTolerance);
  // Where the two best are so close that the tolerance allows either, the text goes on with the reference's.
  for (size_t done = 0; done < greedy.size();) {
    Ids ids = context;
    ids.insert(ids.end(), greedy.begin(), greedy.begin() + static_cast<ptrdiff_t>(done));
    const Ids got = generate_after(session, frames, ids, greedy.size() - done);
    ASSERT_EQ(got.size(), greedy.size() - done);
    const auto same = std::mismatch(got.begin(), got.end(), greedy.begin() + static_cast<ptrdiff_t>(done)).first;
    if (same == got.end()) break;
    done += static_cast<size_t>(same - got.begin());
    EXPECT_LT(leads[done], 2 * kTolerance) << "id " << done;
    ++done;
  }
}

TEST_P(WhisperTest, RefusesAFileThatLacksATensorOrHasMore) {
  const auto load = [&](const ModelFile& file) {
    Config config = read_config(file);
    load_weights(open_device(), file, config, Format::f16, [](float) {});
  };
  const size_t count = open_model(folder_).tensors.size();
  for (size_t i = 0; i < count; ++i) {
    ModelFile file = open_model(folder_);
    const std::string name = file.tensors[i].name;
    TensorView& tensor = file.tensors[i];
    if (name == "proj_out.weight") continue;  // tied
    file.index.erase(name);
    tensor.name += ".more";
    file.index[tensor.name] = i;
    EXPECT_THROW(load(file), Error) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WhisperTest, testing::Values("even", "odd", "whole-chunks"), [](const auto& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class WhisperSessionTest : public GpuTest {
 protected:
  std::unique_ptr<Model> model_ = load_model(open_device(), golden_folder() / "even", Format::q8);
};

TEST_F(WhisperSessionTest, HearsOneSoundAfterAnother) {
  Session session(*model_, kContext, {});
  session.set_sampling(greedy());
  const Frames sounds[] = {frames_for(model_->config), frames_for(model_->config, 1000)};
  std::vector<Ids> written;
  for (const size_t i : {0u, 1u, 1u, 0u}) {
    Session fresh(*model_, kContext, {});
    fresh.set_sampling(greedy());
    written.push_back(generate_after(session, sounds[i], {2, 7}, 12));
    EXPECT_EQ(written.back(), generate_after(fresh, sounds[i], {2, 7}, 12));
  }
  EXPECT_NE(written[0], written[1]);
}

TEST_F(WhisperSessionTest, RefusesWhatItCannotDo) {
  Session session(*model_, kContext, {});
  EXPECT_THROW(session.prompt(Ids{3}), Error);
  EXPECT_THROW(session.prompt_sound(frames_for(model_->config), Ids()), Error);
  EXPECT_THROW(session.prompt_sound(frames_for(model_->config), Ids{131}), Error);
  session.prompt_sound(std::make_shared<const std::vector<float>>(7), Ids{2});
  EXPECT_THROW(session.logits(), Error);
  session.prompt_sound(frames_for(model_->config), Ids{2});
  EXPECT_EQ(session.logits().size(), 131u);
  const TemporaryFolder folder;
  EXPECT_THROW(session.save(folder.path() / "session", ""), Error);
  EXPECT_THROW(Session(*model_, 61, {}), Error);  // more than it has positions
  const auto text = load_model(open_device(), source_folder() / "tests/model/golden_seq2seq/bart", Format::q8);
  Session reader(*text, kContext, {});
  EXPECT_THROW(reader.prompt_sound(frames_for(model_->config), Ids{2}), Error);
}

class SpeechTest : public GpuTest {
 protected:
  std::filesystem::path folder_ = golden_folder() / "speech";
  std::unique_ptr<Model> model_ = load_model(open_device(), folder_, Format::f16);
  ModelFile file_ = open_model(folder_);
  Tokenizer tokenizer_ =
      Tokenizer::from_hf(file_.tokenizer, file_.tokenizer_config, file_.generation_config, folder_.string());
  // A whistle of some seconds; the model is random, and so is what it hears.
  static std::vector<float> whistles(double seconds) {
    std::vector<float> samples(static_cast<size_t>(seconds * 16000));
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i] = static_cast<float>(0.3 * std::sin(static_cast<double>(i) * (0.1 + 1e-6 * static_cast<double>(i))));
    return samples;
  }
};

TEST_F(SpeechTest, FindsWhispersTokens) {
  const SpeechTokens tokens(tokenizer_, model_->config);
  EXPECT_EQ(tokens.end, 256u);
  EXPECT_EQ(tokens.first_time, 267u);
  EXPECT_EQ(tokens.vocab, 338u);
  ASSERT_EQ(tokens.languages.size(), 3u);
  EXPECT_EQ(tokens.languages[1], (std::pair<std::string, uint32_t>{"de", 259u}));
}

// The ids that Transformers' processors of logits let through: the forbidden ones, the rules for times, and the
// device's comparison of times and text, which decides some of them. Ids from the first close decision on may differ.
TEST_F(SpeechTest, FollowsTransformersRules) {
  const json golden = json::parse(std::ifstream(folder_ / "reference.json"));
  const Ids want = golden["spoken"];
  const std::vector<double> leads = golden["spoken_leads"];
  const auto close = std::ranges::find_if(leads, [](double lead) { return lead < 2 * kTolerance; }) - leads.begin();
  ASSERT_GT(close, 20);
  for (const auto mode : {VocabHead::Mode::full, VocabHead::Mode::certified}) {
    Session session(*model_, kContext + 10, {256});
    session.set_sampling(greedy());
    session.set_head({.mode = mode});
    session.set_matcher(
        std::make_unique<SpeechRules>(SpeechTokens(tokenizer_, model_->config), *model_->config.speech));
    const Ids got =
        generate_after(session, frames_for(model_->config), golden["spoken_after"], static_cast<size_t>(close));
    EXPECT_EQ(got, Ids(want.begin(), want.begin() + close));
  }
}

TEST_F(SpeechTest, TellsSegmentsInOrder) {
  SpeechReader reader(*model_, tokenizer_);
  const std::vector<float> samples = whistles(4);
  std::vector<SpeechSegment> segments;
  const auto keep = [&](const SpeechSegment& segment) {
    segments.push_back(segment);
    return true;
  };
  reader.read(samples, {.language = "fr"}, keep);
  EXPECT_EQ(reader.language(), "fr");
  ASSERT_GE(segments.size(), 2u);
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_LT(segments[i].begin, segments[i].end);
    EXPECT_LE(segments[i].end, 4 + 1.4 + 1e-9);
    EXPECT_LT(segments[i].mean_logprob, 0);
    EXPECT_TRUE(segments[i].no_speech > 0 && segments[i].no_speech < 1);
    EXPECT_LE(segments[i > 0 ? i - 1 : 0].begin, segments[i].begin);
  }
  // Again, by another reader, and stopped after the first one.
  SpeechReader other(*model_, tokenizer_);
  std::vector<std::string> texts;
  other.read(samples, {.language = "fr"}, [&](const SpeechSegment& segment) {
    texts.push_back(segment.text);
    return texts.size() < 2;
  });
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], segments[0].text);
  EXPECT_EQ(texts[1], segments[1].text);
  reader.read(samples, {}, keep);
  const std::string found = reader.language();
  EXPECT_TRUE(found == "en" || found == "de" || found == "fr");
  EXPECT_THROW(reader.read(samples, {.language = "xx"}, keep), Error);
  const auto nothing = [](const SpeechSegment&) { return ADD_FAILURE(), false; };
  reader.read({}, {}, nothing);
  EXPECT_EQ(reader.language(), "en");
  reader.read(std::vector<float>(16000, 1e-5f), {}, nothing);  // silence invents no words
}

// Windows of 1.2 s, which is what the model hears; some silent.
TEST_F(SpeechTest, PiecesAreTheWhole) {
  SpeechReader reader(*model_, tokenizer_);
  std::vector<float> samples = whistles(5);
  std::fill(samples.begin() + 30000, samples.begin() + 60000, 0.f);
  for (const uint32_t rate : {16000u, 11025u}) {
    const SpeechOptions options = {.language = "fr", .prompt = " a b ", .rate = rate, .temperatures = {0.7f}};
    using Told = std::vector<std::tuple<double, double, std::string>>;
    Told whole;
    reader.read(samples, options,
                [&](const SpeechSegment& s) { return whole.emplace_back(s.begin, s.end, s.text), true; });
    EXPECT_GE(whole.size(), 4u);
    Told told;
    const auto keep = [&](const SpeechSegment& s) { return told.emplace_back(s.begin, s.end, s.text), true; };
    reader.begin(options);
    const size_t piece = rate / 100;
    for (size_t begin = 0; begin < samples.size(); begin += piece)
      reader.feed(std::span(samples).subspan(begin, std::min(piece, samples.size() - begin)), keep);
    EXPECT_GE(told.size(), 2u);  // while more come
    reader.finish(keep);
    EXPECT_EQ(told, whole) << rate;
  }
}

TEST_F(SpeechTest, TriesTemperatures) {
  SpeechReader reader(*model_, tokenizer_);
  const std::vector<float> samples = whistles(1);
  const auto read = [&](const SpeechOptions& options) {
    Ids ids;
    reader.read(samples, options, [&](const SpeechSegment& segment) {
      ids.insert(ids.end(), segment.ids.begin(), segment.ids.end());
      return true;
    });
    return ids;
  };
  // A random model is never sure of its text: all temperatures are tried, and the likeliest varied text is taken.
  const auto first_window = [&](const SpeechOptions& options) {
    SpeechSegment first;
    reader.read(samples, options, [&](const SpeechSegment& segment) { return first = segment, false; });
    return first;
  };
  const SpeechSegment best = first_window({.language = "fr"});
  EXPECT_LT(best.mean_logprob, -1);
  size_t found = 0;
  for (const float temperature : SpeechOptions().temperatures) {
    const SpeechSegment one = first_window({.language = "fr", .temperatures = {temperature}});
    found += one.ids == best.ids && one.mean_logprob == best.mean_logprob;
  }
  EXPECT_GE(found, 1u);
  EXPECT_NE(read({.language = "fr", .temperatures = {1}}), read({.language = "fr", .temperatures = {0}}));
  EXPECT_EQ(read({.language = "fr", .temperatures = {1}}), read({.language = "fr", .temperatures = {1}}));
  EXPECT_NE(read({.language = "fr", .prompt = "abc"}), read({.language = "fr"}));
  EXPECT_THROW(read({.temperatures = {}}), Error);
  EXPECT_THROW(read({.temperatures = {-1}}), Error);
  EXPECT_THROW(read({.rate = 999}), Error);
}

TEST(CompressionRatio, TellsRepetitions) {
  EXPECT_EQ(compression_ratio(""), 0);
  const std::string once = " And so my fellow Americans, ask not what your country can do for you.";
  EXPECT_LT(compression_ratio(once), 1.3);
  EXPECT_GT(compression_ratio(once + once + once + once), 2.1);
  EXPECT_GT(compression_ratio(std::string(200, 'a')), 10);
}

TEST_F(SpeechTest, RefusesOtherModels) {
  const auto text = load_model(open_device(), source_folder() / "tests/model/golden_seq2seq/bart", Format::q8);
  EXPECT_THROW(SpeechReader(*text, tokenizer_), Error);
}

}  // namespace
}  // namespace weft::test
