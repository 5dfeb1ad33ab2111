// Drafts that are trees: the same tokens as without them, whatever the tree's shape and wherever its right tokens are.
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "session/medusa.h"
#include "session/pass_costs.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

constexpr uint32_t kTokens = 40;

// Knows the text, and guesses it in trees at random. A right guess follows the context or the last right one; any other
// guess is wrong.
class Oracle : public Drafter {
 public:
  Oracle(Ids text, uint32_t vocab, uint32_t seed) : text_(std::move(text)), vocab_(vocab), random_(seed) {}
  void begin(std::span<const uint32_t>) override {}
  void append(uint32_t) override { ++at_; }
  std::span<const uint32_t> draft(size_t) override { return ++chains, std::span<const uint32_t>(); }
  DraftTree draft_tree(size_t most) override {
    ids_.clear();
    parents_.clear();
    std::vector<uint32_t> depths = {0};  // by row
    uint32_t last_right = 0;
    for (uint32_t row = 1; row <= most; ++row) {
      const bool is_right = at_ + depths[last_right] < text_.size() && random_.below(2) == 0;
      const uint32_t parent = is_right || random_.below(3) == 0 ? last_right : random_.below(row);
      const size_t place = at_ + depths[parent];
      const uint32_t right = place < text_.size() ? text_[place] : 0;
      ids_.push_back(is_right ? right : (right + 1 + random_.below(vocab_ - 1)) % vocab_);
      parents_.push_back(static_cast<uint8_t>(parent));
      depths.push_back(depths[parent] + 1);
      if (is_right) last_right = row;
    }
    expected += depths[last_right];
    moved += last_right > depths[last_right];
    return {ids_, parents_};
  }
  void passed(uint32_t, double) override {}

  size_t chains = 0, expected = 0, moved = 0;  // tokens that must be accepted; trees whose right rows move

 private:
  Ids text_;
  uint32_t vocab_;
  Random random_;
  size_t at_ = 0;
  Ids ids_;
  std::vector<uint8_t> parents_;
};

struct Setting {
  const char* name;
  Sampling sampling = greedy();
  VocabHead head = {};
  ops::CacheFormat cache = {};
  uint32_t logprobs = 0;
};
const Setting kSettings[] = {
    {"greedy"},
    {"q8", greedy(), {}, Format::q8},
    {"q4", greedy(), {}, Format::q4},
    {"sampled", {.temperature = 0.8f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}},
    {"penalties",
     {.temperature = 1,
      .top_k = 40,
      .top_p = 0.9f,
      .repeat_penalty = 1.1f,
      .seed = 5,
      .presence_penalty = 0.5f,
      .frequency_penalty = 0.3f}},
    {"certified", greedy(), {.mode = VocabHead::Mode::certified}},
    {"sure, sampled", {.temperature = 0.5f, .top_k = 20, .seed = 6}, {.mode = VocabHead::Mode::sure}},
    {"log-probabilities", greedy(), {}, Format::f16, 5},
};

class TreesTest : public GpuTest {
 protected:
  // The text of a setting without guesses, and with trees of these seeds.
  static void compare(const Model& model, const Setting& setting, const Ids& prompt,
                      std::initializer_list<uint32_t> seeds = {1}) {
    SCOPED_TRACE(setting.name);
    const auto session = [&] {
      auto made = std::make_unique<Session>(model, 128, Ids(), setting.cache);
      made->set_sampling(setting.sampling);
      made->set_head(setting.head);
      if (setting.logprobs > 0) made->set_logprobs(setting.logprobs);
      return made;
    };
    const Ids want = generate(*session(), prompt, kTokens);
    ASSERT_EQ(want.size(), kTokens);
    for (const uint32_t seed : seeds) {
      const auto with = session();
      auto oracle = std::make_unique<Oracle>(want, model.config.vocab, seed);
      const Oracle& known = *oracle;
      with->set_drafter(std::move(oracle));
      EXPECT_EQ(generate(*with, prompt, kTokens), want) << "seed " << seed;
      EXPECT_EQ(with->stats().accepted_tokens, known.expected);
      EXPECT_GT(known.moved, 3u);
      EXPECT_EQ(known.chains, 0u);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(TreesTest, TheSameTokensAsWithout) {
  const std::filesystem::path path = folder_.path() / "m.gguf";
  LlamaShape shape;
  shape.layers = 3;
  make_gguf(path, shape, {DType::q8_0, 5, ""});
  const auto model = load_model(open_device(), path, Format::q8);
  for (const Setting& setting : kSettings) compare(*model, setting, some_ids(11, shape.vocab), {1, 2});
  compare(*model, {"over the end of a tile"}, some_ids(55, shape.vocab));
}

// Windows, heads with norms, sinks, experts, shared caches, queries that grow.
TEST_F(TreesTest, OtherAttention) {
  for (const char* name : {"gemma3", "qwen3", "gpt-oss-f16", "olmo2", "gemma4", "ministral3", "cohere2"}) {
    SCOPED_TRACE(name);
    const auto model =
        load_model(open_device(), source_folder() / "tests/model/golden" / name / "model.gguf", Format::f16);
    EXPECT_TRUE(model->config.checks_trees());
    compare(*model, {"greedy"}, some_ids(30, model->config.vocab));
  }
}

// They get chains.
TEST_F(TreesTest, ModelsWithoutTrees) {
  for (const char* name : {"bloom", "gpt2", "granite-hybrid", "lfm2-tied"}) {
    SCOPED_TRACE(name);
    const auto model =
        load_model(open_device(), source_folder() / "tests/model/golden" / name / "model.gguf", Format::f16);
    EXPECT_FALSE(model->config.checks_trees());
    Session session(*model, 64, {});
    session.set_sampling(greedy());
    auto oracle = std::make_unique<Oracle>(Ids(), model->config.vocab, 1);
    const Oracle& known = *oracle;
    session.set_drafter(std::move(oracle));
    EXPECT_EQ(generate(session, some_ids(8, model->config.vocab), 5).size(), 5u);
    EXPECT_GT(known.chains, 0u);
  }
}

// The end of the context cuts a tree as it cuts a chain.
TEST_F(TreesTest, AtTheEndOfTheContext) {
  const std::filesystem::path path = folder_.path() / "m.gguf";
  make_gguf(path, {}, {DType::q8_0, 5, ""});
  const auto model = load_model(open_device(), path, Format::q8);
  const auto rest = [&](std::unique_ptr<Drafter> drafter) {
    Session session(*model, 32, {});
    session.set_sampling(greedy());
    session.set_drafter(std::move(drafter));
    return generate(session, some_ids(11, model->config.vocab), 100);
  };
  const Ids want = rest(nullptr);
  EXPECT_EQ(want.size(), 21u);
  for (const uint32_t seed : {1u, 2u, 3u, 4u})
    EXPECT_EQ(rest(std::make_unique<Oracle>(want, model->config.vocab, seed)), want);
}

// Checks of every size, of chains and of trees, need no kernel that a session with a drafter has not.
TEST_F(TreesTest, NoAnswerWaitsForKernels) {
  struct Growing : Oracle {  // chains or trees of 1, 2, ..., 7 guesses
    Growing(const Ids& text, uint32_t vocab, bool trees) : Oracle(text, vocab, 3), trees_(trees) {}
    DraftTree draft_tree(size_t most) override {
      const DraftTree tree = Oracle::draft_tree(most).first(std::min(most, size_ % kMostDrafted + 1));
      ++size_;
      return {tree.ids, trees_ ? tree.parents : std::span<const uint8_t>()};
    }
    bool trees_;
    size_t size_ = 0;
  };
  const std::filesystem::path path = folder_.path() / "m.gguf", heads_path = folder_.path() / "heads.gguf";
  make_gguf(path, {}, {DType::q8_0, 5, ""});
  make_medusa(heads_path, 64, 3, {.type = DType::f32, .seed = 9});
  for (const Sampling& sampling : {greedy(), Sampling{.temperature = 0.8f, .seed = 3}}) {
    const std::shared_ptr<Device> device = Device::open({}, plan_of);
    const auto model = load_model(device, path, Format::q8);
    Session session(*model, 128, {});
    session.set_sampling(sampling);
    const Ids text = generate(session, some_ids(11, model->config.vocab), kTokens);
    session.set_drafter(std::make_unique<Medusa>(session, std::make_shared<const ModelFile>(open_model(heads_path))));
    session.set_drafter(std::make_unique<Oracle>(text, model->config.vocab, 1));
    const size_t compiled = device->kernels().size();
    MedusaHeads heads(*model, open_model(heads_path));
    EXPECT_EQ(session.guess(heads).size(), 3 * MedusaHeads::kRanks);
    for (const bool trees : {false, true}) {
      session.set_drafter(std::make_unique<Growing>(text, model->config.vocab, trees));
      EXPECT_EQ(generate(session, some_ids(11, model->config.vocab), kTokens), text);
      EXPECT_GT(session.stats().checks, 7u);
    }
    EXPECT_EQ(device->kernels().size(), compiled);
  }
}

// A drafter learns the times of checks before the first answer, and nothing of that is left in the session.
TEST_F(TreesTest, CostsAreMeasuredBefore) {
  const std::filesystem::path path = folder_.path() / "m.gguf";
  make_gguf(path, {}, {DType::q8_0, 5, ""});
  const std::shared_ptr<Device> device = Device::open({}, plan_of);
  const auto model = load_model(device, path, Format::q8);
  Session plain(*model, 128, {});
  plain.set_sampling(greedy());
  const Ids prompt = some_ids(11, model->config.vocab), text = generate(plain, prompt, kTokens);
  struct Learning : Oracle {
    using Oracle::Oracle;
    bool learns_costs() const override { return true; }
    void learn(const PassCosts& costs) override {
      learnt += costs.one().known();
      for (const uint32_t tokens : kDraftPasses) EXPECT_GE(costs.cost(tokens), 1);
    }
    int learnt = 0;
  };
  const auto learns = [&](Session& session) {
    auto drafter = std::make_unique<Learning>(text, model->config.vocab, 1);
    const Learning& learning = *drafter;
    session.set_drafter(std::move(drafter));
    return learning.learnt == 1;
  };
  Session session(*model, 128, {});
  bool told = false;
  session.set_on_prompt([&](size_t, size_t) { return told = true; });
  session.set_sampling({.temperature = 0.8f, .seed = 3});
  EXPECT_TRUE(learns(session));
  session.set_sampling(greedy());
  const size_t compiled = device->kernels().size();
  EXPECT_TRUE(session.ids().empty());
  EXPECT_EQ(session.stats().checks, 0u);
  EXPECT_EQ(session.stats().prompt_tokens, 0u);
  EXPECT_FALSE(told);
  EXPECT_EQ(generate(session, prompt, kTokens), text);
  EXPECT_TRUE(told);
  EXPECT_GT(session.stats().checks, 0u);  // by the drafter that was set
  EXPECT_EQ(device->kernels().size(), compiled);
  EXPECT_TRUE(learns(session));  // from the first time, although there is a context now
  // A drafter that fails to learn them is set all the same.
  struct Forgetful : Oracle {
    using Oracle::Oracle;
    bool learns_costs() const override { return true; }
    void learn(const PassCosts&) override { throw std::bad_alloc(); }
  };
  EXPECT_NO_THROW(session.set_drafter(std::make_unique<Forgetful>(text, model->config.vocab, 1)));
  EXPECT_EQ(generate(session, prompt, kTokens), text);
  EXPECT_GT(session.stats().checks, 0u);
  // Nothing is measured with a context, with a limited duty, and after a cancel, which is for the next answer.
  EXPECT_FALSE(learns(plain));
  Session limited(*model, 128, {}), cancelled(*model, 128, {});
  limited.duty().set_share(0);
  EXPECT_FALSE(learns(limited));
  cancelled.cancel();
  EXPECT_FALSE(learns(cancelled));
  EXPECT_TRUE(cancelled.cancelled());
  EXPECT_EQ(generate(cancelled, prompt, kTokens), Ids());
}

// Heads guess the same after a tree as after the same tokens without one.
TEST_F(TreesTest, TheStateAfterATree) {
  struct Asking : Oracle {
    Asking(Ids text, uint32_t vocab, Session& of, MedusaHeads& heads, bool plain)
        : Oracle(std::move(text), vocab, 7), of_(of), heads_(heads), plain_(plain) {}
    DraftTree draft_tree(size_t most) override {
      const std::span<const abi::Guess> all = of_.guess(heads_);
      said[of_.ids().size()].assign(all.begin(), all.end());
      return plain_ ? DraftTree() : Oracle::draft_tree(most);
    }
    std::map<size_t, std::vector<abi::Guess>> said;  // by the length of the context
    Session& of_;
    MedusaHeads& heads_;
    bool plain_;
  };
  const std::filesystem::path path = folder_.path() / "m.gguf", heads_path = folder_.path() / "heads.gguf";
  make_gguf(path, {}, {DType::q8_0, 5, ""});
  make_medusa(heads_path, 64, 3, {.type = DType::f32, .seed = 9});
  const auto model = load_model(open_device(), path, Format::q8);
  MedusaHeads heads(*model, open_model(heads_path));
  Ids text;
  const auto said = [&](bool plain) {
    Session session(*model, 128, {});
    session.set_sampling(greedy());
    auto asking = std::make_unique<Asking>(text, model->config.vocab, session, heads, plain);
    const Asking& asked = *asking;
    session.set_drafter(std::move(asking));
    text = generate(session, some_ids(11, model->config.vocab), kTokens);
    return asked.said;
  };
  const auto want = said(true), got = said(false);
  EXPECT_GT(got.size(), 5u);
  EXPECT_LT(got.size(), want.size());
  for (const auto& [length, guesses] : got) {
    const auto& others = want.at(length);
    ASSERT_EQ(guesses.size(), others.size());
    for (size_t i = 0; i < guesses.size(); ++i) EXPECT_NEAR(guesses[i].share, others[i].share, 0.01) << length;
  }
}

}  // namespace
}  // namespace weft::test
