// Models whose probabilities come from several softmaxes: against PyTorch and Transformers
// (tests/tools/softmax_goldens.py), and what a session does with them.
#include <cmath>
#include <deque>
#include <fstream>

#include "base/error.h"
#include "model/table_rows.h"
#include "session/batch.h"
#include "session/lookup.h"
#include "support/closeness.h"
#include "support/json_value.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"
#include "vocab/heads/softmaxes.h"

namespace weft::test {
namespace {

using nlohmann::json;
using Ids = std::vector<uint32_t>;

constexpr double kTolerance = 2e-3;  // of f16's logits, in units of the spread, as tests/model/families_test.cpp has it

const SoftmaxHead& softmaxes_of(const Config& config) { return dynamic_cast<const SoftmaxHead&>(*config.head); }

class SoftmaxesTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  std::filesystem::path folder_ = source_folder() / "tests/model/golden_softmaxes" / GetParam();
  std::filesystem::path path_ = folder_ / "model.gguf";
  json golden_ = json::parse(std::ifstream(folder_ / "reference.json"));
  Ids prompt_ = golden_["prompt"], greedy_ = golden_["greedy"];
  Ids text() const {
    Ids ids = prompt_;
    ids.insert(ids.end(), greedy_.begin(), greedy_.end());
    return ids;
  }
};

TEST_P(SoftmaxesTest, EqualsPyTorch) {
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, {});
  const Ids ids = text();
  double worst = 0;
  for (size_t i = 0; i < golden_["positions"].size(); ++i) {
    session.prompt(std::span(ids).first(golden_["positions"][i].get<size_t>() + 1));
    const std::vector<float> got = session.logits();
    const std::vector<double> want = golden_["log_probs"][i];
    worst = std::max(worst, distance(want, got));
    double sum = 0;
    for (const double value : got) sum += std::exp(value);
    EXPECT_NEAR(sum, 1, 1e-4) << "they are logarithms of probabilities";
  }
  std::printf("%s: %.1e of the spread\n", GetParam().c_str(), worst);
  EXPECT_LT(worst, kTolerance);
  session.set_sampling(greedy());
  EXPECT_EQ(generate(session, prompt_, static_cast<uint32_t>(greedy_.size())), greedy_);
}

// Within the tolerance of logits that spread by up to 7.
TEST_P(SoftmaxesTest, ScoresEqualPyTorchsLoss) {
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, {});
  const std::vector<float> got = session.score(text());
  const std::vector<double> want = golden_["nll"];
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.02) << "token " << i + 1;
}

TEST_P(SoftmaxesTest, LogProbabilitiesAndSampling) {
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, {});
  Sampling sampling;
  sampling.temperature = 1, sampling.top_k = 40, sampling.top_p = 0.9f, sampling.seed = 3;
  sampling.repeat_penalty = 1.2f;
  session.set_sampling(sampling);
  session.set_logprobs(3);
  session.prompt(prompt_);
  Ids ids = prompt_;
  std::vector<float> chosen;
  session.generate(20, true, [&](uint32_t id) {
    ids.push_back(id), chosen.push_back(session.logprobs().chosen);
    return true;
  });
  ASSERT_EQ(chosen.size(), 20u);
  Session scorer(*model, 128, {});
  const std::vector<float> scores = scorer.score(ids);
  for (size_t i = 0; i < chosen.size(); ++i) EXPECT_NEAR(chosen[i], -scores[prompt_.size() - 1 + i], 1e-3);
}

// Passes have a power of two of rows, whether there are as many sessions or fewer.
TEST_P(SoftmaxesTest, Batches) {
  const auto model = load_model(open_device(), path_, Format::f16);
  const auto count = static_cast<uint32_t>(greedy_.size());
  for (const uint32_t sessions : {2u, 3u, 5u}) {
    SCOPED_TRACE(sessions);
    std::deque<Session> all;
    std::vector<BatchEntry> entries;
    std::vector<Ids> want, got(sessions);
    for (uint32_t i = 0; i < sessions; ++i) {
      const Ids prompt = i == 0 ? prompt_ : some_ids(7 + 2 * i, model->config.vocab);
      Session alone(*model, 128, {});
      alone.set_sampling(greedy());
      want.push_back(generate(alone, prompt, count));
      Session& one = all.emplace_back(*model, 128, Ids());
      one.set_sampling(greedy());
      one.prompt(prompt);
      entries.push_back({one, count, true, [&got, i](uint32_t id) { return got[i].push_back(id), true; }});
    }
    EXPECT_EQ(want[0], greedy_);
    generate_batch(entries);
    EXPECT_EQ(got, want);
  }
}

// Half of the prompt as rows of the table, and a saved session that goes on.
TEST_P(SoftmaxesTest, SoftTokensAndSavedSessions) {
  const auto model = load_model(open_device(), path_, Format::f16);
  const size_t half = prompt_.size() / 2, kept = 12;
  const Ids first(prompt_.begin(), prompt_.begin() + static_cast<ptrdiff_t>(half));
  const std::vector<float> rows =
      table_rows(*model, *model->weights.embedding, std::span(prompt_).subspan(half), model->config.embedding_scale);
  Session one(*model, 128, {}), two(*model, 128, {});
  one.set_sampling(greedy()), two.set_sampling(greedy());
  const std::vector<PromptPart> parts = {{first, {}}, {{}, rows}};
  one.prompt_parts(parts);
  Ids got;
  const auto keep = [&](uint32_t id) { return got.push_back(id), true; };
  one.generate(kept, true, keep);
  const TemporaryFolder folder;
  one.save(folder.path() / "session", "");
  two.restore(folder.path() / "session");
  two.set_sampling(greedy());
  two.generate(static_cast<uint32_t>(greedy_.size() - kept), true, keep);
  EXPECT_EQ(got, greedy_);
}

TEST_P(SoftmaxesTest, Grammars) {
  const ModelFile file = open_model(path_);
  const Tokenizer tokenizer = Tokenizer::from_gguf(file.metadata, "golden");
  const auto trie = std::make_shared<const TokenTrie>(tokenizer.token_bytes());
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, tokenizer.stop_ids());
  session.set_sampling(greedy());
  session.set_matcher(std::make_unique<Matcher>(
      std::make_shared<const Grammar>(Grammar::from_regex("[a-z]{12}[0-9]{6}", "test")), trie, tokenizer.stop_ids()));
  const std::string text = tokenizer.decode(generate(session, prompt_, 40));
  EXPECT_EQ(text.size(), 18u) << text;
  EXPECT_EQ(text.find_first_of("0123456789"), 12u) << text;
}

TEST_P(SoftmaxesTest, RefusesWhatKnowsOneSoftmax) {
  const auto model = load_model(open_device(), path_, {});
  Session session(*model, 64, {});
  const auto refused = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported);
      EXPECT_NE(error.sentence().find("several softmaxes"), std::string::npos) << error.sentence();
      return true;
    }
    return false;
  };
  for (const VocabHead::Mode mode : {VocabHead::Mode::certified, VocabHead::Mode::sure, VocabHead::Mode::fast})
    EXPECT_TRUE(refused([&] { session.set_head({.mode = mode}); }));
  EXPECT_TRUE(refused([&] { session.set_head({.keep = Ids{3, 4}}); }));
  EXPECT_TRUE(refused([&] { session.set_drafter(std::make_unique<Lookup>()); }));
  session.set_sampling(greedy());
  session.prompt(prompt_);
  EXPECT_TRUE(refused([&] { session.lens({0, 1, {0}, true}, [](const LensRow&) { return true; }); }));
  session.set_head({.mode = VocabHead::Mode::fast, .automatic = true});
  EXPECT_EQ(generate(session, prompt_, 5), Ids(greedy_.begin(), greedy_.begin() + 5)) << "auto is full";
}

TEST_P(SoftmaxesTest, RefusesLogitsBeyondABinding) {
  Tuning tuning;
  tuning.slice_bytes = 4096;  // of four softmaxes with 320 places each 5,120 bytes
  try {
    load_model(open_device(tuning), path_, Format::f16);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.sentence(), "the logits of 3 softmaxes take 5120 bytes, a binding of this device reaches 4096");
    EXPECT_EQ(error.place(), path_.string());
  }
}

// ---- The clusters of an adaptive softmax that can win ----

class ClustersTest : public GpuTest {
 protected:
  const std::filesystem::path path_ = source_folder() / "tests/model/golden_softmaxes/adaptive/model.gguf";
  // Tokens from several prompts. whole: with log-probabilities, for which every row is computed.
  Ids text(Session& session, const Sampling& sampling, bool whole, uint32_t prompts, uint32_t tokens) {
    Ids all;
    for (uint32_t i = 0; i < prompts; ++i) {
      Sampling own = sampling;
      own.seed = i + 1;
      session.set_sampling(own);
      session.set_logprobs(whole ? 1 : 0);
      Random random(i);
      Ids prompt(6);
      for (uint32_t& id : prompt) id = 3 + random.below(297);
      const Ids ids = generate(session, prompt, tokens);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }
};

// Rows that a greedy choice computes of these ln p: those of the first softmax; then of the likeliest cluster whose
// share is above the best row's probability; then of all whose share is above that of the best row so far.
uint64_t rows_for(const SoftmaxHead& softmaxes, std::span<const float> log_probs) {
  const auto vocab = static_cast<uint32_t>(log_probs.size());
  const auto best_of = [&](uint32_t k) {
    return *std::max_element(log_probs.begin() + softmaxes.first_row(k),
                             log_probs.begin() + softmaxes.end_row(k, vocab));
  };
  std::vector<double> shares(softmaxes.count());
  for (uint32_t k = 0; k < softmaxes.count(); ++k)
    for (uint32_t row = softmaxes.first_row(k); row < softmaxes.end_row(k, vocab); ++row)
      shares[k] += std::exp(double{log_probs[row]});
  double best = std::exp(double{best_of(0)});
  const auto largest = static_cast<uint32_t>(std::max_element(shares.begin() + 1, shares.end()) - shares.begin());
  std::vector<bool> read(softmaxes.count());
  read[largest] = shares[largest] >= best;
  if (read[largest]) best = std::max(best, std::exp(double{best_of(largest)}));
  uint64_t rows = softmaxes.first_row(1);
  for (uint32_t k = 1; k < softmaxes.count(); ++k)
    if (read[k] || (read[largest] && shares[k] >= best))
      rows += softmaxes.end_row(k, vocab) - softmaxes.first_row(k) / TILE_ROWS * TILE_ROWS;
  return rows;
}

TEST_F(ClustersTest, GreedyReadsThoseWhoseShareIsLargeEnough) {
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, {}), scorer(*model, 128, {});
  session.set_sampling(greedy());
  std::vector<uint32_t> seen(3);  // tokens that need so many clusters
  for (uint32_t i = 0; i < 100; ++i) {
    Random random(i);
    Ids ids(1 + i % 5);
    for (uint32_t& id : ids) id = 3 + random.below(297);
    scorer.prompt(ids);
    const std::vector<float> log_probs = scorer.logits();
    const uint64_t before = session.stats().head_rows;
    const Ids next = generate(session, ids, 1);
    const uint64_t want = rows_for(softmaxes_of(model->config), log_probs);
    ASSERT_EQ(session.stats().head_rows - before, want) << "after " << ids.size() << " tokens";
    ASSERT_EQ(next[0], std::max_element(log_probs.begin(), log_probs.end()) - log_probs.begin());
    ++seen[want == 100 ? 0 : want < 388 ? 1 : 2];
  }
  std::printf("tokens with 0, 1 and 2 clusters: %u, %u, %u\n", seen[0], seen[1], seen[2]);
  EXPECT_TRUE(seen[0] > 0 && seen[1] > 0) << "choose_clusters_test has tokens that need both";
}

TEST_F(ClustersTest, AllTokensAreThoseOfTheWholeTable) {
  const auto model = load_model(open_device(), path_, Format::f16);
  Session session(*model, 128, {}), whole(*model, 128, {});
  struct Case {
    const char* name;
    Sampling sampling;
    bool reads_less;
  };
  const auto sampling = [](float temperature) {
    Sampling s;
    s.temperature = temperature, s.top_k = 0, s.top_p = 1, s.min_p = 0, s.repeat_penalty = 1;
    return s;
  };
  std::vector<Case> cases = {{"greedy", sampling(0), true}, {"penalties", sampling(0), true},
                             {"plain", sampling(1), true},  {"cold", sampling(0.1f), true},
                             {"top-k", sampling(1), true},  {"top-k and top-p", sampling(0.7f), true},
                             {"min-p", sampling(1), true},  {"top-k and typical-p", sampling(1), true},
                             {"top-p", sampling(1), false}, {"typical-p", sampling(1), false}};
  cases[1].sampling.repeat_penalty = 1.3f, cases[1].sampling.presence_penalty = 0.5f;
  cases[1].sampling.frequency_penalty = -0.2f;
  cases[4].sampling.top_k = 5;
  cases[5].sampling.top_k = 20, cases[5].sampling.top_p = 0.8f, cases[5].sampling.repeat_penalty = 1.1f;
  cases[6].sampling.min_p = 0.2f;
  cases[7].sampling.top_k = 8, cases[7].sampling.typical_p = 0.7f;
  cases[8].sampling.top_p = 0.9f;
  cases[9].sampling.typical_p = 0.9f;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const SessionStats before = session.stats();
    const Ids got = text(session, one.sampling, false, 10, 30), want = text(whole, one.sampling, true, 10, 30);
    ASSERT_EQ(got, want);
    const SessionStats& after = session.stats();
    const double rows = static_cast<double>(after.head_rows - before.head_rows) /
                        static_cast<double>(after.head_tokens - before.head_tokens);
    std::printf("%-20s %5.1f of 300 rows a token\n", one.name, rows);
    if (one.reads_less) {
      EXPECT_LT(rows, 300);
    }
  }
  EXPECT_EQ(whole.stats().head_rows, whole.stats().head_tokens * 388) << "88 are in the tiles of two softmaxes";
}

TEST_F(ClustersTest, TablesInSlices) {
  Tuning tuning;
  tuning.slice_bytes = 3 * 64 * 256;  // a few tiles
  const auto model = load_model(open_device(), path_, Format::f16),
             sliced = load_model(open_device(tuning), path_, Format::f16);
  Session session(*model, 128, {}), other(*sliced, 128, {});
  EXPECT_EQ(text(session, greedy(), true, 10, 10), text(other, greedy(), false, 10, 10));
}

INSTANTIATE_TEST_SUITE_P(, SoftmaxesTest, testing::Values("mixture", "adaptive"),
                         [](const auto& one) { return one.param; });

// ---- Invalid files ----

// The configuration of a Llama of this width with these keys.
Config config_with(const std::vector<std::pair<std::string, json>>& keys, uint32_t width = 64) {
  ModelFile file;
  file.kind = ModelFile::Kind::gguf;
  file.path = "made.gguf";
  file.metadata = {{"general.architecture", "llama"},
                   {"llama.embedding_length", width},
                   {"llama.block_count", 1},
                   {"llama.feed_forward_length", 64},
                   {"llama.context_length", 128},
                   {"llama.attention.head_count", 2},
                   {"llama.attention.layer_norm_rms_epsilon", 1e-5}};
  for (const auto& [key, value] : keys) file.metadata["llama." + key] = value;
  return read_config(file);
}

TEST(SoftmaxKeys, AreRead) {
  const Config mixture = config_with({{"softmax.kind", "mixture"}, {"softmax.count", 16}});
  EXPECT_EQ(mixture.head->kind(), "mixture");
  EXPECT_EQ(softmaxes_of(mixture).count(), 16u);
  EXPECT_EQ(mixture.head->rows_read(20), 0u) << "all";
  const Config adaptive = config_with({{"softmax.kind", "adaptive"}, {"softmax.cutoffs", {5, 9}}});
  EXPECT_EQ(adaptive.head->text(), "3 softmaxes (adaptive)");
  EXPECT_EQ(softmaxes_of(adaptive).end_row(2, 20), 20u);
  EXPECT_EQ(config_with({{"softmax.kind", "plain"}}).head, nullptr);
}

TEST(SoftmaxKeys, AreRefusedByName) {
  const std::pair<std::string, json> mixture = {"softmax.kind", "mixture"}, adaptive = {"softmax.kind", "adaptive"},
                                     two = {"softmax.count", 2};
  const std::vector<std::pair<std::vector<std::pair<std::string, json>>, std::string>> cases = {
      {{{"softmax.kind", "sparse"}}, "softmax 'sparse'"},
      {{mixture}, "softmax.count"},
      {{mixture, {"softmax.count", 1}}, "softmax.count"},
      {{mixture, {"softmax.count", 17}}, "softmax.count"},
      {{adaptive}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", 7}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", json::array()}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", {0, 5}}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", {5, 5}}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", {-5}}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", {1.5}}}, "softmax.cutoffs"},
      {{adaptive, {"softmax.cutoffs", {"5"}}}, "softmax.cutoffs"},
      {{mixture, two, {"final_logit_softcapping", 30.0}}, "cap or scale"},
      {{mixture, two, {"logit_scale", 0.5}}, "cap or scale"}};
  for (const auto& [keys, named] : cases) {
    SCOPED_TRACE(json(keys).dump());
    try {
      config_with(keys);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_NE((error.sentence() + error.place()).find(named), std::string::npos)
          << error.sentence() << ", " << error.place();
    }
  }
  EXPECT_THROW(config_with({mixture, two}, 96), Error);
}

}  // namespace
}  // namespace weft::test
