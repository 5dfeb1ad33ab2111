// A vocabulary table over several devices: the tokens are those of one device.
//
// The second device is the first one that the loader lists beside the tests' own: with VK_DRIVER_FILES=a.json:b.json
// another driver's. Without one, the tests' own is opened once more.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "format/model_file.h"
#include "model/table_rows.h"
#include "run/medusa.h"
#include "session/batch.h"
#include "session/continuous_batch.h"
#include "session/lookup.h"
#include "support/failing_call.h"
#include "support/model_test.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

const std::filesystem::path kSource = source_folder();
const std::filesystem::path kPocket = kSource / "apps/pocket/pocket.gguf";

// Device number i, not counting the tests' own, opened once.
std::shared_ptr<Device> other_device(size_t i) {
  static std::vector<std::weak_ptr<Device>> opened(2);
  std::shared_ptr<Device> device = opened[i].lock();
  if (device) return device;
  const std::vector<DeviceListing> all = list_devices();
  const size_t own = find_device({});
  size_t chosen = own;
  for (size_t d = 0; d < all.size(); ++d)
    if (d != own && all[d].refusal.empty()) chosen = d;
  opened[i] = device = Device::open(std::to_string(chosen), plan_of);
  return device;
}

DeviceFormats split(std::vector<double> shares, DeviceFormats formats = {}) {
  auto split = std::make_shared<TableSplit>();
  for (size_t i = 1; i < shares.size(); ++i) split->others.push_back(other_device(i - 1));
  split->shares = std::move(shares);
  formats.split = split;
  return formats;
}

class ShardsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    kept_ = {other_device(0), other_device(1)};
  }
  std::filesystem::path toy(DType type = DType::q8_0, bool tied = true) {
    LlamaShape shape;
    shape.vocab = 900, shape.tied = tied, shape.context = 2048;
    const auto path = folder_.path() / "toy.gguf";
    make_gguf(path, shape, {type, 5, ""});
    return path;
  }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const DeviceFormats& formats = {}) {
    return load_model(open_device(), path, formats);
  }

  TemporaryFolder folder_;
  std::vector<std::shared_ptr<Device>> kept_;
};

Sampling sampling(float temperature, uint32_t top_k, float top_p) {
  Sampling sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  sampling.top_p = top_p;
  sampling.seed = 11;
  return sampling;
}

struct Case {
  const char* name;
  Sampling sampling;
  uint32_t logprobs = 0;
};

std::vector<Case> cases() {
  std::vector<Case> all = {{"greedy", greedy()},
                           {"greedy with log-probabilities", greedy(), 4},
                           {"top-k 40", sampling(1, 40, 1)},
                           {"top-p 0.9", sampling(1, 0, 0.9f), 3},
                           {"typical-p", sampling(0.8f, 0, 1)},
                           {"penalties", sampling(0.9f, 40, 0.95f)}};
  all[4].sampling.typical_p = 0.7f;
  all[5].sampling.repeat_penalty = 1.3f;
  all[5].sampling.presence_penalty = 0.4f;
  all[5].sampling.frequency_penalty = 0.2f;
  return all;
}

struct Answer {
  Ids ids;
  std::vector<float> logprobs;  // of all tokens
};

Answer answer(Session& session, const Case& one, const Ids& prompt, uint32_t count) {
  session.set_sampling(one.sampling);
  session.set_logprobs(one.logprobs);
  session.prompt(prompt);
  Answer result;
  session.generate(count, true, [&](uint32_t id) {
    result.ids.push_back(id);
    if (one.logprobs) result.logprobs.push_back(session.logprobs().chosen);
    return true;
  });
  return result;
}

// Both models' answers; greedy ones also to prompts of several passes and of the rows of one device alone.
void expect_equal(const Model& whole, const Model& shared, uint32_t count) {
  const uint32_t vocab = whole.config.vocab, own = shared.weights.embedding->rows(),
                 chunk = whole.device->plan().chunk_tokens;
  ASSERT_LT(own, vocab);
  Ids first = some_ids(20, own), others = some_ids(20, vocab - own);
  for (uint32_t& id : others) id += own;
  const std::vector<Ids> prompts = {some_ids(7, vocab), some_ids(2 * chunk + 3, vocab), first, others, {vocab - 1}};
  const uint32_t context = 2 * chunk + 64;
  Session a(whole, context, {}), b(shared, context, {});
  bool from_own = false, from_others = false;
  const std::vector<Case> all = cases();
  for (const Case& one : all)
    for (const Ids& prompt : prompts) {
      SCOPED_TRACE(std::string(one.name) + ", a prompt of " + std::to_string(prompt.size()));
      if (&prompt != &prompts.front() && &one != &all.front()) break;
      const uint32_t most = &prompt == &prompts.front() ? count : 12;
      const Answer want = answer(a, one, prompt, most), got = answer(b, one, prompt, most);
      EXPECT_EQ(got.ids, want.ids);
      ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
      for (size_t i = 0; i < want.logprobs.size(); ++i) EXPECT_NEAR(got.logprobs[i], want.logprobs[i], 1e-3);
      for (const uint32_t id : got.ids) (id < own ? from_own : from_others) = true;
    }
  EXPECT_TRUE(from_own && from_others);
}

// Largest difference between the logits of the two models.
double difference(const Model& whole, const Model& shared) {
  Session a(whole, 256, {}), b(shared, 256, {});
  const Ids prompt = some_ids(30, whole.config.vocab);
  a.prompt(prompt), b.prompt(prompt);
  const std::vector<float> want = a.logits(), got = b.logits();
  EXPECT_EQ(got.size(), want.size());
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) most = std::max<double>(most, std::abs(got[i] - want[i]));
  return most;
}

TEST(TableSplitTest, RowsAreInProportionAndWholeTiles) {
  const auto bounds = [](std::vector<double> shares, uint32_t rows) {
    return TableSplit{{}, std::move(shares)}.bounds(rows);
  };
  EXPECT_EQ(bounds({3, 1}, 8192), (Ids{0, 6144, 8192}));
  EXPECT_EQ(bounds({3e9, 1e9}, 8192), (Ids{0, 6144, 8192}));
  EXPECT_EQ(bounds({1, 1, 2}, 1000), (Ids{0, 256, 512, 1000}));
  EXPECT_EQ(bounds({1e-9, 1}, 8192), (Ids{0, 64, 8192}));
  EXPECT_EQ(bounds({1, 1e-9}, 8192), (Ids{0, 8128, 8192}));
  EXPECT_EQ(bounds({1, 1}, 65), (Ids{0, 64, 65}));
  EXPECT_EQ(bounds({1, 1e-9, 1e-9}, 180), (Ids{0, 64, 128, 180}));
  EXPECT_THROW(bounds({1, 1}, 64), Error);
}

TEST_F(ShardsTest, PocketsTokensAreThoseOfOneDevice) {
  const auto whole = load(kPocket), shared = load(kPocket, split({1, 1}));
  ASSERT_EQ(shared->weights.shards.size(), 1u);
  EXPECT_EQ(shared->weights.shards[0].first_row, 4096u);
  expect_equal(*whole, *shared, 100);
  const double off = difference(*whole, *shared);
  std::cout << "the devices' logits differ by " << off << " at most\n";
  EXPECT_LT(off, 1e-3);
}

TEST_F(ShardsTest, ToysTokensAreThoseOfOneDevice) {
  for (const bool tied : {true, false})
    for (const DType type : {DType::q8_0, DType::f16, DType::q4_1}) {
      if (!tied && type != DType::q8_0) continue;
      SCOPED_TRACE(std::string(tied ? "tied" : "untied") + " " + std::to_string(static_cast<int>(type)));
      const auto path = toy(type, tied);
      const auto whole = load(path), shared = load(path, split({2, 1}));
      EXPECT_EQ(shared->weights.shards[0].separate_output != nullptr, !tied);
      expect_equal(*whole, *shared, 60);
    }
}

// Each device reads what its own rows need. Penalties and biases are those of the device's rows.
TEST_F(ShardsTest, HeadsWithinShards) {
  const auto compare = [&](const std::filesystem::path& path, std::vector<double> shares, uint32_t count, double most) {
    const auto whole = load(path), shared = load(path, split(std::move(shares)));
    const uint32_t vocab = whole->config.vocab, own = shared->weights.embedding->rows();
    std::vector<Case> all = cases();
    all.push_back({"min-p", sampling(0.9f, 0, 1)});
    all.back().sampling.min_p = 0.1f;
    for (const VocabHead::Mode mode : {VocabHead::Mode::sure, VocabHead::Mode::certified})
      for (const Case& one : all) {
        SCOPED_TRACE(std::string(one.name) + (mode == VocabHead::Mode::sure ? ", sure" : ", certified"));
        Session a(*whole, 256, {}), b(*shared, 256, {});
        VocabHead head;
        head.mode = mode;
        b.set_head(head);
        for (Session* session : {&a, &b})
          session->set_bias(Ids{3, own + 5, vocab - 1}, std::vector<float>{1.5f, 2.5f, -4});
        EXPECT_EQ(answer(b, one, some_ids(7, vocab), count).ids, answer(a, one, some_ids(7, vocab), count).ids);
        const SessionStats& stats = b.stats();
        const double share = stats.head_bytes / static_cast<double>(stats.head_tokens) /
                             static_cast<double>(shared->weights.output_table().bytes());
        if (&one == &all.front()) {
          EXPECT_LT(share, most);
          std::vector<TokenLogit> listed = b.head_logits();
          EXPECT_GE(listed.size(), 2u);  // of each device one at least
          EXPECT_LT(listed.size(), vocab);
          EXPECT_TRUE(std::ranges::any_of(listed, [&](const TokenLogit& token) { return token.id < own; }));
          EXPECT_TRUE(std::ranges::any_of(listed, [&](const TokenLogit& token) { return token.id >= own; }));
        }
      }
  };
  compare(toy(), {2, 1}, 40, 1.5);  // so few rows and columns are read whole
  compare(toy(), {1, 1, 2}, 20, 1.5);
  compare(kPocket, {1, 1}, 30, 0.9);
}

// The devices of two drivers share a table. .ci/run has it with lavapipe and SwiftShader.
TEST_F(ShardsTest, TwoDrivers) {
  const std::string own = open_device()->caps().name, other = other_device(0)->caps().name;
  if (own == other) {
    ASSERT_FALSE(std::getenv("WEFT_TWO_DRIVERS")) << "there is only " << own;
    GTEST_SKIP() << "VK_DRIVER_FILES names one driver";
  }
  const auto path = toy();
  const auto whole = load(path), shared = load(path, split({2, 1}));
  expect_equal(*whole, *shared, 40);
  Session a(*whole, 256, {}), b(*shared, 256, {});
  VocabHead head;
  head.mode = VocabHead::Mode::sure;
  b.set_head(head);
  for (const Case& one : {cases()[0], cases()[2]})
    EXPECT_EQ(answer(b, one, some_ids(7, 900), 40).ids, answer(a, one, some_ids(7, 900), 40).ids) << one.name;
}

TEST_F(ShardsTest, ThreeDevices) {
  const auto path = toy();
  const auto whole = load(path), shared = load(path, split({1, 1, 2}));
  ASSERT_EQ(shared->weights.shards.size(), 2u);
  expect_equal(*whole, *shared, 60);
}

// A scale of the embedding and a soft cap; per-layer embeddings; a norm of the embedding; positions that are added.
TEST_F(ShardsTest, OtherFamilies) {
  for (const char* name : {"gemma2", "gemma4", "bloom", "gpt2"}) {
    SCOPED_TRACE(name);
    const auto path = kSource / "tests/model/golden" / name;
    const auto whole = load(path, Format::q8), shared = load(path, split({1, 1}, Format::q8));
    Session a(*whole, 48, {}), b(*shared, 48, {});
    for (const Case& one : cases())
      EXPECT_EQ(answer(b, one, some_ids(9, whole->config.vocab), 20).ids,
                answer(a, one, some_ids(9, whole->config.vocab), 20).ids)
          << one.name;
  }
}

TEST_F(ShardsTest, PoliteAndTimedPasses) {
  const auto path = toy();
  const auto whole = load(path), shared = load(path, split({1, 1}));
  Session a(*whole, 256, {}, Format::f16, Policy::polite), b(*shared, 256, {}, Format::f16, Policy::polite);
  const Ids prompt = some_ids(80, 900);
  a.set_sampling(greedy()), b.set_sampling(greedy());
  EXPECT_EQ(generate(b, prompt, 40), generate(a, prompt, 40));
  if (!shared->device->caps().timestamps) return;
  const std::vector<PassTimes> times = b.time_passes(1, 2);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_TRUE(
      std::ranges::any_of(times[1].stages, [](const auto& stage) { return stage.name == std::string("project"); }));
  EXPECT_EQ(generate(b, prompt, 40), generate(a, prompt, 40));
}

TEST_F(ShardsTest, Grammars) {
  const ModelFile file = open_model(kPocket);
  const Tokenizer tokenizer = Tokenizer::from_gguf(file.metadata, "pocket");
  const auto trie = std::make_shared<const TokenTrie>(tokenizer.token_bytes());
  const auto whole = load(kPocket), shared = load(kPocket, split({1, 1}));
  const auto gemma = kSource / "tests/model/golden/gemma2";  // with a soft cap
  for (const char* regex : {"([a-z]{2,9} ){6}[.]", "[^q]{60}", "\\{\"n\":[0-9]{1,20}\\}"})
    for (const Case& one : cases()) {
      SCOPED_TRACE(std::string(regex) + ", " + one.name);
      std::vector<Answer> answers;
      for (const Model* model : {whole.get(), shared.get()}) {
        Session session(*model, 256, tokenizer.stop_ids());
        session.set_matcher(std::make_unique<Matcher>(
            std::make_shared<const Grammar>(Grammar::from_regex(regex, "test")), trie, tokenizer.stop_ids()));
        answers.push_back(answer(session, one, tokenizer.encode("hello there", Tokenizer::Special::plain), 60));
      }
      EXPECT_GT(answers[0].ids.size(), 3u);
      EXPECT_EQ(answers[1].ids, answers[0].ids);
      ASSERT_EQ(answers[1].logprobs.size(), answers[0].logprobs.size());
      for (size_t i = 0; i < answers[0].logprobs.size(); ++i)
        EXPECT_NEAR(answers[1].logprobs[i], answers[0].logprobs[i], 1e-3);
    }
  // Tokens that may follow, with their logits; then a grammar that is taken away again.
  Session a(*whole, 256, tokenizer.stop_ids()), b(*shared, 256, tokenizer.stop_ids());
  for (Session* session : {&a, &b}) {
    session->set_matcher(std::make_unique<Matcher>(std::make_shared<const Grammar>(Grammar::from_regex("ab?c", "test")),
                                                   trie, tokenizer.stop_ids()));
    session->prompt(some_ids(5, 8192));
  }
  std::vector<TokenLogit> want = a.head_logits(), got = b.head_logits();
  ASSERT_EQ(got.size(), want.size());
  std::ranges::sort(want, {}, &TokenLogit::id);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].id, want[i].id);
  b.set_matcher(nullptr);
  EXPECT_EQ(b.head_logits().size(), 8192u);
}

// A soft cap leaves -infinity as it is (lib/score.glsl): else a masked row would be a number like others.
TEST_F(ShardsTest, GrammarsAndASoftCap) {
  const auto path = kSource / "tests/model/golden/gemma2";
  const auto shared = load(path, split({1, 1}, Format::q8));
  std::vector<std::string> tokens(shared->config.vocab);
  std::vector<std::vector<uint8_t>> bytes;
  for (uint32_t id = 0; id < shared->config.vocab; ++id)
    tokens[id] = id < 10 ? std::string(1, static_cast<char>('0' + id)) : "x" + std::to_string(id);
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  for (const Case& one : cases()) {
    Session session(*shared, 48, {});
    session.set_matcher(std::make_unique<Matcher>(
        std::make_shared<const Grammar>(Grammar::from_regex("[0-9]{30}", "test")), trie, std::vector<uint32_t>()));
    const Ids ids = answer(session, one, {3, 14, 15}, 25).ids;
    EXPECT_EQ(ids.size(), 25u) << one.name;
    for (const uint32_t id : ids) EXPECT_LT(id, 10u) << one.name;
  }
}

// A session that was saved where the table is whole goes on where it is not, and the other way round.
TEST_F(ShardsTest, SavedSessions) {
  const auto path = toy();
  const auto whole = load(path), shared = load(path, split({1, 1}));
  const Ids prompt = some_ids(70, 900);
  for (const auto& [from, to] : {std::pair{whole.get(), shared.get()}, std::pair{shared.get(), whole.get()}}) {
    Session one(*from, 256, {}), two(*to, 256, {});
    one.set_sampling(sampling(1, 40, 0.95f));
    generate(one, prompt, 10);
    one.save(folder_.path() / "session", "");
    two.restore(folder_.path() / "session");
    EXPECT_EQ(two.ids(), one.ids());
    Ids want, got;
    one.generate(20, true, [&](uint32_t id) { return want.push_back(id), true; });
    two.generate(20, true, [&](uint32_t id) { return got.push_back(id), true; });
    EXPECT_EQ(got, want);
  }
}

// Rows of the host's own, beside rows of both devices.
TEST_F(ShardsTest, SoftTokens) {
  const auto path = toy();
  const auto whole = load(path), shared = load(path, split({1, 1}));
  const Ids soft_ids = {3, 899, 450}, first = {1, 500, 899}, last = {898, 2};
  const std::vector<float> rows = table_rows(*whole, *whole->weights.embedding, soft_ids, 1);
  const std::vector<PromptPart> parts = {{first, {}}, {{}, rows}, {last, {}}};
  std::vector<Ids> answers;
  for (const Model* model : {whole.get(), shared.get()}) {
    Session session(*model, 256, {});
    session.set_sampling(greedy());
    session.prompt_parts(parts);
    session.generate(20, true, [&, ids = &answers.emplace_back()](uint32_t id) { return ids->push_back(id), true; });
  }
  EXPECT_EQ(answers[1], answers[0]);
}

// Sessions of both models with these prompts, one greedy, one sampled, one with a grammar if the batch takes it.
struct Three {
  explicit Three(const Model& model) : a(model, 256, {}), b(model, 256, {}), c(model, 256, {}) {
    a.set_sampling(greedy());
    b.set_sampling(sampling(0.9f, 40, 0.95f));
    c.set_sampling(sampling(1, 0, 0.9f));
    a.prompt(some_ids(7, 900)), b.prompt(some_ids(30, 900)), c.prompt(some_ids(1, 900));
  }
  std::vector<BatchEntry> entries(uint32_t count) {
    std::vector<BatchEntry> all;
    for (Session* session : {&a, &b, &c}) {
      Ids& ids = got[all.size()];
      all.push_back({*session, count, true, [&ids](uint32_t id) { return ids.push_back(id), true; }});
    }
    return all;
  }
  Session a, b, c;
  std::vector<Ids> got = std::vector<Ids>(3);
};

TEST_F(ShardsTest, Batches) {
  const auto whole = load(toy()), shared = load(toy(), split({1, 2}));
  Three alone(*whole), batch(*shared), continuous(*shared);
  for (const BatchEntry& entry : alone.entries(40)) entry.session.generate(40, true, entry.on_token);
  EXPECT_EQ(generate_batch(batch.entries(40)), std::vector<Stop>(3, Stop::length));
  EXPECT_EQ(batch.got, alone.got);
  ContinuousBatch running(*shared);
  for (const BatchEntry& entry : continuous.entries(40)) running.add(entry);
  size_t ended = 0;
  for (int step = 0; ended < 3 && step < 200; ++step)
    for (const ContinuousBatch::Ended& one : running.step()) {
      ++ended;
      EXPECT_EQ(one.stop, Stop::length);
    }
  EXPECT_EQ(continuous.got, alone.got);
}

TEST_F(ShardsTest, Scores) {
  const auto whole = load(toy()), shared = load(toy(), split({1, 2}));
  Session a(*whole, 256, {}), b(*shared, 256, {});
  const Ids ids = some_ids(60, 900);
  const std::vector<float> want = a.score(ids), got = b.score(ids);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-3) << i;
  EXPECT_EQ(b.ids(), ids);
  // After a pass that fails, the context is the whole text, too.
  {
    const FailCall<&VolkDeviceTable::vkQueueSubmit> failing(*shared->device, 20, VK_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_THROW(b.score(ids), Error);
  }
  EXPECT_EQ(b.ids(), ids);
  a.set_sampling(greedy()), b.set_sampling(greedy());
  Ids after_a, after_b;
  a.generate(5, true, [&](uint32_t id) { return after_a.push_back(id), true; });
  b.generate(5, true, [&](uint32_t id) { return after_b.push_back(id), true; });
  EXPECT_EQ(after_b, after_a) << "the text goes on";
}

TEST_F(ShardsTest, Lenses) {
  const auto compare = [&](const std::filesystem::path& path, uint32_t vocab) {
    const auto whole = load(path), shared = load(path, split({2, 1}));
    const uint32_t chunk = whole->device->plan().chunk_tokens;
    std::vector<std::vector<float>> rows[2];
    for (const Model* model : {whole.get(), shared.get()}) {
      Session session(*model, 2 * chunk + 8, {});
      session.prompt(some_ids(chunk + 5, vocab));
      const LensRange range = {chunk - 2, 6, {0, 1, model->config.layers}, true};
      EXPECT_TRUE(session.lens(range, [&](const LensRow& row) {
        auto& own = rows[model == shared.get()];
        own.emplace_back(row.logits.begin(), row.logits.end());
        own.back().insert(own.back().end(), row.hidden.begin(), row.hidden.end());
        return true;
      }));
    }
    ASSERT_EQ(rows[0].size(), 18u);
    ASSERT_EQ(rows[1].size(), 18u);
    for (size_t i = 0; i < rows[0].size(); ++i) {
      ASSERT_EQ(rows[1][i].size(), rows[0][i].size());
      for (size_t j = 0; j < rows[0][i].size(); ++j)
        ASSERT_NEAR(rows[1][i][j], rows[0][i][j], 2e-3 * (1 + std::abs(rows[0][i][j]))) << i << ", " << j;
    }
  };
  compare(toy(), 900);
  compare(toy(DType::q8_0, false), 900);
  compare(kPocket, 8192);
}

TEST_F(ShardsTest, WhatNeedsAllRowsIsRefused) {
  const auto shared = load(toy(), split({1, 1}));
  Session session(*shared, 256, {});
  const Ids ids = some_ids(6, 900);
  session.prompt(ids);
  const auto refused = [](const char* place, const auto& call) {
    try {
      call();
      ADD_FAILURE() << place << " is not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsupported) << place;
      EXPECT_EQ(error.place(), place);
      EXPECT_EQ(error.sentence(), "the vocabulary table is spread over 2 devices");
    }
  };
  VocabHead certified, kept;
  certified.mode = VocabHead::Mode::certified;
  kept.keep = Ids{1, 2, 3};
  refused("head", [&] { session.set_head(kept); });
  refused("head_estimates", [&] { session.head_estimates(); });
  refused("guessing ahead", [&] { session.set_drafter(std::make_unique<Lookup>()); });
  refused("rows of the table", [&] { table_rows(*shared, *shared->weights.embedding, ids, 1); });
  refused("rows of the table", [&] { table_dots(*shared, std::vector<float>(64), nullptr); });
  make_medusa(folder_.path() / "heads.gguf", 64, 2);
  const ModelFile heads = open_model(folder_.path() / "heads.gguf");
  refused("medusa", [&] { MedusaHeads(*shared, heads); });
  VocabHead automatic = certified;
  automatic.automatic = true;
  session.set_head(automatic);  // chooses among the heads that there are: full
  session.set_sampling(greedy());
  EXPECT_EQ(generate(session, ids, 5).size(), 5u);
}

TEST_F(ShardsTest, ModelsThatAreNotSplit) {
  const auto refused = [&](const std::shared_ptr<Device>& device, const std::filesystem::path& path, const char* what,
                           Code code = Code::unsupported) {
    try {
      load_model(device, path, split({1, 1}));
      ADD_FAILURE() << path << " is not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(error.sentence().find(what), std::string::npos) << error.sentence();
    }
  };
  refused(open_device(), kSource / "tests/model/golden_encoders/bert", "is not split between devices");
  refused(open_device(), kSource / "tests/model/golden_seq2seq/t5", "is not split between devices");
  // All of it fits, and takes more than three quarters.
  const uint64_t bytes = load(toy(), split({1, 1}))->weights.device_bytes();
  const auto small = Device::open({}, [&](const Caps& caps) {
    Plan plan = plan_of(caps);
    plan.memory_budget = bytes / 8 * 9;
    return plan;
  });
  refused(small, toy(), "layers are not streamed");
  const TableSplit many = {std::vector<std::shared_ptr<Device>>(99, other_device(0)), std::vector<double>(100, 1.0)};
  DeviceFormats formats;
  formats.split = std::make_shared<const TableSplit>(many);
  EXPECT_THROW(load(toy(), formats), Error);
}

}  // namespace
}  // namespace weft::test
