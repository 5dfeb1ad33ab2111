// Whisper's network against Hugging Face Transformers: tiny random models of tests/tools/whisper_goldens.py.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/utf8.h"
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

TEST_P(WhisperTest, AttentionToTheSourceEqualsTransformers) {
  const auto model = load_model(open_device(), folder_, Format::f16);
  const Config& c = model->config;
  Ids ids = {c.start_token};
  for (const auto& id : golden_["greedy"]) ids.push_back(id);
  ids.pop_back();
  Session session(*model, kContext, {});
  session.set_sampling(greedy());
  session.prompt_sound(frames_for(c), ids);
  std::vector<SourceHead> heads;
  for (uint32_t layer = c.layers; layer-- > 0;) heads.push_back({layer, c.heads.heads - 1});
  const size_t positions = c.encoder->context / 2;
  double worst = 0;
  size_t told = 0;
  session.source_attention(heads, positions, [&](std::span<const float> weights) {
    ASSERT_EQ(weights.size(), ids.size() * positions);
    const json& want = golden_["attention"][heads[told++].layer];
    for (size_t i = 0; i < want.size(); ++i)
      for (size_t p = 0; p < positions; ++p) {
        const double got = weights[golden_["positions"][i].get<size_t>() * positions + p];
        worst = std::max(worst, std::abs(got / want[i][p].get<double>() - 1));
      }
  });
  EXPECT_EQ(told, heads.size());
  std::printf("weights: %.1e\n", worst);
  EXPECT_LT(worst, 5e-3);
  const auto nothing = [](std::span<const float>) { FAIL(); };
  EXPECT_THROW(session.source_attention(heads, 0, nothing), Error);
  EXPECT_THROW(session.source_attention(heads, c.encoder->context + 1, nothing), Error);
  EXPECT_THROW(session.source_attention(std::vector<SourceHead>{{c.layers, 0}}, positions, nothing), Error);
  EXPECT_THROW(session.source_attention(std::vector<SourceHead>{{0, c.heads.heads}}, positions, nothing), Error);
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

// As Transformers does: without a wish of the caller, generation_config.json decides.
TEST_F(SpeechTest, TheFilesLanguageAndTaskAreDefaults) {
  const auto read_with = [&](const char* key, const JsonValue& value) {
    ModelFile file = open_model(folder_);
    file.generation_config[key] = value;
    return read_config(file).speech;
  };
  for (const char* name : {"fr", "<|fr|>", "French"}) EXPECT_EQ(read_with("language", name)->language, "fr") << name;
  EXPECT_EQ(read_with("language", nullptr)->language, "");
  EXPECT_TRUE(read_with("task", "translate")->translate);
  EXPECT_FALSE(read_with("task", "transcribe")->translate);
  for (const char* key : {"language", "task"}) {
    try {
      read_with(key, "klingon");
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_file);
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("generation_config.json"), std::string::npos) << error.what();
    }
  }
  model_->config.speech = read_with("language", "French");
  SpeechReader reader(*model_, tokenizer_);
  const std::vector<float> samples = whistles(1);
  const auto keep = [](const SpeechSegment&) { return true; };
  reader.read(samples, {}, keep);
  EXPECT_EQ(reader.language(), "fr");
  reader.read(samples, {.language = "de"}, keep);
  EXPECT_EQ(reader.language(), "de");
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
    // Other passes have computed the prompt, and rounding follows passes.
    found += one.ids == best.ids && std::abs(one.mean_logprob - best.mean_logprob) < 1e-5;
  }
  EXPECT_GE(found, 1u);
  EXPECT_NE(read({.language = "fr", .temperatures = {1}}), read({.language = "fr", .temperatures = {0}}));
  EXPECT_EQ(read({.language = "fr", .temperatures = {1}}), read({.language = "fr", .temperatures = {1}}));
  EXPECT_NE(read({.language = "fr", .prompt = "abc"}), read({.language = "fr"}));
  EXPECT_THROW(read({.temperatures = {}}), Error);
  EXPECT_THROW(read({.temperatures = {-1}}), Error);
  EXPECT_THROW(read({.rate = 999}), Error);
}

// Words change neither texts nor windows, and are the text.
TEST_F(SpeechTest, TellsWords) {
  SpeechReader reader(*model_, tokenizer_);
  const std::vector<float> samples = whistles(3);
  std::vector<SpeechSegment> plain, worded;
  const auto into = [](std::vector<SpeechSegment>& all) {
    return [&all](const SpeechSegment& segment) { return all.push_back(segment), true; };
  };
  reader.read(samples, {.language = "fr", .temperatures = {0}}, into(plain));
  reader.read(samples, {.language = "fr", .temperatures = {0}, .words = true}, into(worded));
  ASSERT_EQ(worded.size(), plain.size());
  ASSERT_GE(plain.size(), 2u);
  // The model writes bytes that are no characters.
  const auto characters = [](const std::string& text) {
    std::string valid = replace_invalid_utf8(text);
    for (size_t at; (at = valid.find(kReplacement)) != valid.npos;) valid.erase(at, kReplacement.size());
    return valid;
  };
  size_t words = 0;
  std::string text, spoken;
  double last = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].words.empty());
    EXPECT_EQ(worded[i].ids, plain[i].ids);
    EXPECT_EQ(worded[i].begin, plain[i].begin);
    text += characters(worded[i].text);
    for (const SpeechWord& word : worded[i].words) {
      spoken += characters(word.text);
      EXPECT_LE(word.begin, word.end);
      last = std::max(last, word.end);
      ++words;
    }
  }
  EXPECT_EQ(spoken, text);
  EXPECT_LE(last, 3 + 1e-9);
  EXPECT_GE(words, plain.size());
}

TEST_F(SpeechTest, SplitsWords) {
  const auto split = [&](std::string_view text, bool by_characters) {
    std::vector<std::string> words;
    size_t tokens = 0;
    for (const WordTokens& word : split_words(tokenizer_, tokenizer_.encode(text, Special::plain), by_characters)) {
      words.push_back(word.text);
      tokens += word.count;
    }
    EXPECT_EQ(tokens, text.size());  // tokens are bytes
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(split("", false), Words());
  EXPECT_EQ(split("A caf\u00e9, so", false), (Words{"A", " caf\u00e9", ",", " so"}));
  EXPECT_EQ(split("\u65e5\u672c", true), (Words{"\u65e5", "\u672c"}));
  EXPECT_EQ(split("\u65e5\u672c", false), Words{"\u65e5\u672c"});
  EXPECT_EQ(split("a\xe6\x97", false), Words{"a\ufffd"});
}

// The path goes along the large weights, and never back.
TEST(WordAlignment, FollowsTheWeights) {
  constexpr size_t kTokens = 5, kPositions = 40;
  const size_t begins[kTokens] = {0, 4, 15, 16, 30};
  WordAlignment alignment(kTokens, kPositions);
  for (int head = 0; head < 2; ++head) {
    std::vector<float> weights(kTokens * kPositions, 0.01f);
    for (size_t t = 0; t < kTokens; ++t)
      for (size_t p = begins[t]; p < (t + 1 < kTokens ? begins[t + 1] : kPositions); ++p)
        weights[t * kPositions + p] = 0.5f;
    alignment.add(weights);
  }
  // The third token's single position is lost in the median of seven.
  EXPECT_EQ(alignment.path(0, 2), (std::vector<size_t>{0, 4}));
  const std::vector<size_t> path = alignment.path(1, 5);
  EXPECT_EQ(path.size(), 4u);
  EXPECT_EQ(path[0], 0u);
  EXPECT_EQ(path[3], 30u);
  WordAlignment one(1, 1);
  std::vector<float> weight = {1};
  one.add(weight);
  EXPECT_EQ(one.path(0, 1), std::vector<size_t>{0});
}

TEST(WindowWords, JoinsPunctuationAndCutsLongWords) {
  // (Hi, you. And then): the time after "." is a pause, which "And" has.
  const std::vector<WordTokens> split = {{" (", 1}, {"Hi", 1},   {",", 1},    {" you", 2},
                                         {".", 1},  {" And", 1}, {" then", 1}};
  const std::vector<double> times = {0, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 5, 5.2};
  WindowWords words(split, times);
  double last_end = 0;
  std::vector<SpeechWord> first = words.take(6, 0, 0.8, last_end);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].text, " (Hi,");
  EXPECT_EQ(first[1].text, " you.");
  EXPECT_DOUBLE_EQ(first[0].begin, 0.1);
  EXPECT_DOUBLE_EQ(first[0].end, 0.3);
  EXPECT_DOUBLE_EQ(last_end, 0.6);
  const std::vector<SpeechWord> second = words.take(2, 4.6, 5.2, last_end);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].text, " And");
  EXPECT_DOUBLE_EQ(second[0].begin, 4.6);  // usual: 0.2 s; longest: 0.4 s
  EXPECT_DOUBLE_EQ(second[0].end, 5);
  EXPECT_TRUE(words.take(1, 0, 9, last_end).empty());
  EXPECT_TRUE(WindowWords({}, std::vector<double>{0}).take(1, 0, 9, last_end).empty());
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
