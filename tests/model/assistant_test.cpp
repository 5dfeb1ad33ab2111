// Gemma 4's drafter: what it guesses against Transformers, and the same tokens as without it.
#include "session/assistant.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "model/assistant.h"
#include "support/golden.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;

std::filesystem::path drafter_folder(const std::string& name) {
  return source_folder() / "tests/model/golden_assistants" / name;
}
std::filesystem::path target_folder(const std::string& name) { return source_folder() / "tests/model/golden" / name; }

json reference_of(const std::string& name) {
  std::ifstream file(drafter_folder(name) / "reference.json");
  return json::parse(file);
}

std::shared_ptr<const ModelFile> drafter_file(const std::string& name) {
  return std::make_shared<const ModelFile>(open_model(drafter_folder(name)));
}

// Guesses always, whether it pays or not.
class Eager : public Drafter {
 public:
  Eager(Session& of, const std::string& name, size_t count) : assistant_(of, drafter_file(name)), count_(count) {}
  void begin(std::span<const uint32_t> ids) override { assistant_.begin(ids); }
  void append(uint32_t id) override { assistant_.append(id); }
  std::span<const uint32_t> draft(size_t most) override { return assistant_.guess(std::min(most, count_)); }
  void passed(uint32_t tokens, double seconds) override { assistant_.passed(tokens, seconds); }
  void leave_device() override { assistant_.leave_device(); }

 private:
  Assistant assistant_;
  size_t count_;
};

// Has the network guess after the first token, and leaves the logits of each guess.
class Probe : public Drafter {
 public:
  struct Guess {
    uint32_t id;
    std::vector<float> logits;
  };
  Probe(Session& of, AssistantNetwork& network, std::vector<Guess>& found)
      : of_(of), network_(network), found_(found) {}
  void begin(std::span<const uint32_t>) override { found_.clear(); }
  void append(uint32_t) override {}
  std::span<const uint32_t> draft(size_t) override {
    for (uint32_t count = 1; count <= 4 && found_.size() < 4; ++count) {
      const uint32_t id = of_.guess(network_, count).back().id;
      const View logits = network_.logits().part(0, uint64_t{of_.model().config.vocab} * 4);
      found_.push_back({id, download_as<float>(of_.model().device, logits)});
    }
    return {};
  }
  void passed(uint32_t, double) override {}

 private:
  Session& of_;
  AssistantNetwork& network_;
  std::vector<Guess>& found_;
};

class AssistantTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) model_ = load_model(open_device(), target_folder(GetParam()), Format::f16);
  }
  std::unique_ptr<Session> session(const Sampling& sampling = greedy(), const ops::CacheFormat& cache = {}) const {
    auto made = std::make_unique<Session>(*model_, 256, std::vector<uint32_t>(), cache);
    made->set_sampling(sampling);
    return made;
  }
  std::unique_ptr<Session> guessing(size_t count, const Sampling& sampling = greedy(),
                                    const ops::CacheFormat& cache = {}) const {
    auto made = session(sampling, cache);
    made->set_drafter(std::make_unique<Eager>(*made, GetParam(), count));
    return made;
  }

  json reference_ = reference_of(GetParam());
  std::unique_ptr<Model> model_;
};

// After texts shorter and longer than the window, and after one token.
TEST_P(AssistantTest, GuessesAsTransformers) {
  const auto file = drafter_file(GetParam());
  AssistantNetwork network(*model_, *file, 256);
  const auto session = this->session();
  std::vector<Probe::Guess> found;
  session->set_drafter(std::make_unique<Probe>(*session, network, found));
  double worst = 0;
  for (const json& text : reference_["texts"]) {
    const std::vector<uint32_t> ids = text["ids"];
    SCOPED_TRACE(ids.size());
    EXPECT_EQ(generate(*session, ids, 3).front(), text["next"]);
    ASSERT_EQ(found.size(), 4u);
    ASSERT_GT(text["lead"], 2 * kTolerance) << "the guesses after one may be others";
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].id, text["guesses"][i]) << i;
      worst = std::max(worst, distance_of(found[i].logits, text["logits"][i]));
    }
  }
  std::printf("%.1e of the spread\n", worst);
  EXPECT_LT(worst, kTolerance);
}

TEST_P(AssistantTest, AcceptsAsManyAsTransformersGuessesRight) {
  const auto eager = guessing(4);
  const std::vector<uint32_t> answer = reference_["greedy"];
  EXPECT_EQ(generate(*eager, reference_["prompt"], static_cast<uint32_t>(answer.size())), answer);
  const double accepted = reference_["accepted"], got = static_cast<double>(eager->stats().accepted_tokens);
  std::printf("%.0f accepted, Transformers %.0f\n", got, accepted);
  EXPECT_GT(accepted, 10);
  EXPECT_NEAR(got, accepted, 4);  // the end of the text is guessed in other parts
}

const std::pair<const char*, Sampling> kSamplings[] = {
    {"greedy", greedy()},
    {"sampled", {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}},
    {"top-p and penalties",
     {.temperature = 0.8f,
      .top_k = 40,
      .top_p = 0.9f,
      .repeat_penalty = 1.1f,
      .seed = 5,
      .presence_penalty = 0.5f,
      .frequency_penalty = 0.3f}}};

// Refused guesses are a part of each text. Then the session goes back into its context, goes on from there with other
// tokens, and begins another conversation.
TEST_P(AssistantTest, TheSameTokensAsWithout) {
  for (const auto& [name, sampling] : kSamplings) {
    SCOPED_TRACE(name);
    const auto alone = session(sampling), paying = session(sampling);
    paying->set_drafter(std::make_unique<Assistant>(*paying, drafter_file(GetParam())));
    const std::unique_ptr<Session> eager[] = {guessing(3, sampling), guessing(7, sampling)};
    std::vector<uint32_t> prompt = reference_["prompt"];
    for (const size_t kept : {prompt.size(), size_t{50}, size_t{0}}) {
      SCOPED_TRACE(kept);
      prompt.resize(kept);
      for (const uint32_t id : some_ids(5, model_->config.vocab)) prompt.push_back(id);
      const std::vector<uint32_t> want = generate(*alone, prompt, 40);
      EXPECT_EQ(generate(*paying, prompt, 40), want);
      for (const auto& one : eager) EXPECT_EQ(generate(*one, prompt, 40), want);
    }
    for (const auto& one : eager) {
      EXPECT_GT(one->stats().drafted_tokens, 100u);
      EXPECT_LT(one->stats().accepted_tokens, one->stats().drafted_tokens);
    }
  }
}

TEST_P(AssistantTest, WithCachesOfEachType) {
  const std::vector<uint32_t> prompt = reference_["prompt"];
  for (const ops::CacheFormat& cache :
       {ops::CacheFormat(Format::q8), ops::CacheFormat(Format::q4), ops::CacheFormat(Format::q8, Format::q4)}) {
    SCOPED_TRACE(ops::name(cache));
    const auto eager = guessing(4, greedy(), cache);
    EXPECT_EQ(generate(*eager, prompt, 40), generate(*session(greedy(), cache), prompt, 40));
    // With q4 the text soon is another one, which the drafter was not trained for.
    if (cache == ops::CacheFormat(Format::q8)) {
      EXPECT_GT(eager->stats().accepted_tokens, 10u);
    }
  }
}

// The session's device is another one after it was lost: the drafter is loaded to it.
TEST_P(AssistantTest, OnAnotherDevice) {
  const std::vector<uint32_t> prompt = reference_["prompt"];
  const auto eager = guessing(4);
  const std::vector<uint32_t> want = generate(*eager, prompt, 40);
  const uint64_t before = eager->stats().accepted_tokens;
  eager->leave_device();
  model_->weights = {};
  model_->device = open_device();
  const ModelFile file = open_model(target_folder(GetParam()));
  model_->weights = load_weights(model_->device, file, model_->config, Format::f16, {});
  eager->enter_device();
  EXPECT_EQ(generate(*eager, prompt, 40), want);
  EXPECT_EQ(eager->stats().accepted_tokens, 2 * before);
}

std::string underscored(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, AssistantTest, testing::Values("gemma4", "gemma4-keys"), underscored);

// ---- Drafters that are refused; no device ----

// A drafter whose config.json is changed.
class OtherDrafter {
 public:
  OtherDrafter(const std::string& name, const std::function<void(json&)>& change) {
    std::filesystem::copy(drafter_folder(name), folder_.path(), std::filesystem::copy_options::recursive);
    std::ifstream in(folder_.path() / "config.json");
    json config = json::parse(in);
    change(config);
    std::ofstream(folder_.path() / "config.json") << config;
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::string refusal(const std::filesystem::path& drafter, const Config& target, std::optional<Code> code = {}) {
  try {
    const ModelFile file = open_model(drafter);
    Config config = read_assistant_config(file);
    check_weights(file, config);
    fit_assistant(config, target, file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing";
}

Config target_config(const std::string& name) {
  const ModelFile file = open_model(target_folder(name));
  Config config = read_config(file);
  check_weights(file, config);
  return config;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(AssistantFile, FitsItsTarget) {
  const ModelFile file = open_model(drafter_folder("gemma4"));
  Config config = read_assistant_config(file);
  check_weights(file, config);
  fit_assistant(config, target_config("gemma4"), file);
  // The target's layers from 4 on share caches.
  const uint32_t want[] = {2, 3, 2, 2, 3};
  ASSERT_EQ(config.layers, std::size(want));
  for (uint32_t layer = 0; layer < config.layers; ++layer) EXPECT_EQ(config.attention_of(layer).source, want[layer]);
}

TEST(AssistantFile, OtherTargetsAreRefused) {
  const Config target = target_config("gemma4");
  const auto refused = [&](const std::function<void(Config&)>& change) {
    Config other = target;
    change(other);
    const std::string said = refusal(drafter_folder("gemma4"), other, Code::invalid_argument);
    EXPECT_PRED2(has, said, "golden_assistants/gemma4/config.json");
    return said;
  };
  const auto attention = [](Config& c, uint32_t layer) -> AttentionConfig& {
    return std::get<AttentionConfig>(c.layer_configs[layer].mixer);
  };
  EXPECT_EQ(refusal(drafter_folder("gemma4"), target), "nothing");
  EXPECT_PRED2(has, refusal(drafter_folder("gemma4"), target_config("gemma4-keys"), Code::invalid_argument),
               "'backbone_hidden_size' is 48, the session's model has states of 40");
  EXPECT_PRED2(has, refusal(drafter_folder("gemma4"), target_config("gemma3"), Code::invalid_argument),
               "the session's model is of the family 'gemma3_text'");
  EXPECT_PRED2(has, refused([](Config& c) { c.vocab = 132; }),
               "'vocab_size' is 131, the session's model has a vocabulary of 132");
  EXPECT_PRED2(has, refused([&](Config& c) { attention(c, 2).window = 25; }),
               "'sliding_window' is 24, the session's model has windows of 25");
  EXPECT_PRED2(has, refused([&](Config& c) { attention(c, 2).heads.head_dim = 32; }),
               "'head_dim' is 16, the session's model has keys of 32");
  EXPECT_PRED2(has, refused([&](Config& c) { attention(c, 3).heads.head_dim = 64; }),
               "'global_head_dim' is 32, the session's model has keys of 64");
  EXPECT_PRED2(has, refused([&](Config& c) { attention(c, 2).heads.kv_heads = 2; }),
               "'num_key_value_heads' is 1, the session's model has caches of 2 heads");
  EXPECT_PRED2(has, refused([&](Config& c) { attention(c, 3).heads.kv_heads = 4; }),
               "'num_global_key_value_heads' is 1, the session's model has caches of 4 heads");
  EXPECT_PRED2(has, refused([&](Config& c) {
                 for (uint32_t layer : {0u, 2u}) attention(c, layer).window = 0;
               }),
               "'layer_types' has layers with a window, the session's model has none of these");
}

TEST(AssistantFile, OtherFilesAreRefused) {
  const Config target = target_config("gemma4");
  EXPECT_PRED2(has, refusal(target_folder("gemma4"), target, Code::bad_file), "it is no drafter of Gemma 4");
  EXPECT_PRED2(has, refusal(target_folder("gemma4") / "model.gguf", target, Code::bad_file),
               "it is no drafter of Gemma 4");
  const auto changed = [&](const std::function<void(json&)>& change, std::optional<Code> code = {}) {
    return refusal(OtherDrafter("gemma4", change).path(), target, code);
  };
  EXPECT_PRED2(has, changed([](json& c) { c["use_ordered_embeddings"] = true; }, Code::unsupported),
               "'use_ordered_embeddings'");
  EXPECT_PRED2(has, changed([](json& c) { c.erase("text_config"); }, Code::bad_file), "text_config");
  EXPECT_PRED2(has, changed([](json& c) { c["text_config"]["num_kv_shared_layers"] = 4; }, Code::bad_file),
               "num_kv_shared_layers");
  EXPECT_PRED2(has, changed([](json& c) { c["text_config"]["hidden_size_per_layer_input"] = 16; }, Code::unsupported),
               "'hidden_size_per_layer_input'");
  EXPECT_PRED2(has, changed([](json& c) { c["backbone_hidden_size"] = 64; }, Code::bad_file),
               "tensor 'pre_projection.weight' has the shape (40, 96), expected (40, 128)");
  EXPECT_EQ(changed([](json& c) { c["text_config"].erase("num_kv_shared_layers"); }), "nothing");
  try {
    read_config(open_model(drafter_folder("gemma4")));
    FAIL() << "it is no model by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_PRED2(has, std::string(error.what()), "guesses for a Gemma 4");
  }
}

}  // namespace
}  // namespace weft::test
