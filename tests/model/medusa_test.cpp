// Medusa heads: what they guess against double precision, and the same tokens as without them.
#include "session/medusa.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "format/gguf_writer.h"
#include "grammar/matcher.h"
#include "run/hidden_states.h"
#include "session/batch.h"
#include "support/model_test.h"
#include "support/op_inputs.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

const std::filesystem::path kPocket = source_folder() / "apps/pocket/pocket.gguf";
const std::filesystem::path kPocketHeads = source_folder() / "apps/pocket/pocket-medusa.gguf";

// Guesses always, whether it pays or not.
class Eager : public Drafter {
 public:
  explicit Eager(Session& of, const std::filesystem::path& heads, bool trees = false)
      : medusa_(of, std::make_shared<const ModelFile>(open_model(heads))), trees_(trees) {}
  void begin(std::span<const uint32_t> ids) override { medusa_.begin(ids); }
  void append(uint32_t id) override { medusa_.append(id); }
  std::span<const uint32_t> draft(size_t most) override {
    const std::span<const uint32_t> all = medusa_.guess();
    return all.first(std::min(most, all.size()));
  }
  DraftTree draft_tree(size_t most) override { return trees_ ? medusa_.guess_tree(most) : DraftTree{draft(most), {}}; }
  void passed(uint32_t tokens, double seconds) override { medusa_.passed(tokens, seconds); }
  void leave_device() override { medusa_.leave_device(); }

 private:
  Medusa medusa_;
  bool trees_;
};

std::vector<float> floats_of(const TensorView& tensor) {
  std::vector<float> values(element_count(tensor.shape));
  to_float(tensor, 0, values);
  return values;
}

// y = W x, in double precision; W (rows, cols)
std::vector<double> product(const std::vector<float>& weights, const std::vector<double>& x) {
  std::vector<double> y(weights.size() / x.size());
  for (size_t r = 0; r < y.size(); ++r)
    for (size_t i = 0; i < x.size(); ++i) y[r] += weights[r * x.size() + i] * x[i];
  return y;
}

class MedusaTest : public GpuTest {
 protected:
  void make(const LlamaShape& shape, DType type = DType::q8_0) {
    make_gguf(model_path(), shape, {type, 5, ""});
    model_ = load_model(open_device(), model_path(), type == DType::q8_0 ? Format::q8 : Format::f16);
  }
  std::filesystem::path model_path() const { return folder_.path() / "m.gguf"; }
  std::filesystem::path heads_path() const { return folder_.path() / "heads.gguf"; }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Catches what a session's heads say when they are asked last.
class Probe : public Drafter {
 public:
  Probe(Session& of, MedusaHeads& heads, std::vector<abi::Guess>& found) : of_(of), heads_(heads), found_(found) {}
  void begin(std::span<const uint32_t>) override {}
  void append(uint32_t) override {}
  std::span<const uint32_t> draft(size_t) override {
    const std::span<const abi::Guess> said = of_.guess(heads_);
    found_.assign(said.begin(), said.end());
    return {};
  }
  void passed(uint32_t, double) override {}

 private:
  Session& of_;
  MedusaHeads& heads_;
  std::vector<abi::Guess>& found_;
};

// Widths that are whole rows of activations and widths that are not; as many heads as a pass can check, and one.
TEST_F(MedusaTest, TheHeadsInDoublePrecision) {
  struct Case {
    uint32_t width, heads;
    DType type;
    std::vector<int32_t> rows = {};
    uint32_t layers = 1;
    bool own_tables = false;
  };
  for (const Case& one : {Case{64, 3, DType::q8_0},
                          {96, 7, DType::q8_0},
                          {96, 4, DType::f16},
                          {96, 3, DType::q5_1},
                          {96, 2, DType::q4_0},
                          {128, 1, DType::f32},
                          {64, 3, DType::q8_0, {0, 64, 192, 100, 448, 64}},
                          {96, 3, DType::f16, {}, 3},
                          {64, 7, DType::q8_0, {}, 2},
                          {64, 2, DType::f32, {}, 1, true},
                          {96, 5, DType::f16, {}, 2, true}}) {
    SCOPED_TRACE(std::to_string(one.heads) + " heads of width " + std::to_string(one.width));
    LlamaShape shape;
    shape.width = one.width;
    make(shape, one.type == DType::q8_0 ? DType::q8_0 : DType::f16);
    make_medusa(heads_path(), one.width, one.heads,
                {.type = one.type,
                 .seed = 9,
                 .medusa_rows = one.rows,
                 .medusa_layers = one.layers,
                 .medusa_vocab = one.own_tables ? shape.vocab : 0},
                2);
    const ModelFile file = open_model(heads_path()), network = open_model(model_path());
    MedusaHeads heads(*model_, file);
    const std::vector<float> table =
        stored_table(model_->weights.output_table().matrix().format, *network.find("token_embd.weight"));
    Session session(*model_, 64, {});
    session.set_sampling(greedy());
    std::vector<abi::Guess> got;
    session.set_drafter(std::make_unique<Probe>(session, heads, got));
    for (const uint32_t length : {5u, 11u, 40u}) {
      got.clear();
      // The probe is asked after each token but the last two, which came from the state of the tokens before: here the
      // prompt's, or that of a pass of one token.
      generate(session, some_ids(length, shape.vocab), length == 11 ? 5 : 3);
      const std::vector<uint32_t> ids(session.ids().begin(), session.ids().end() - 3);
      const std::vector<float> states = hidden_states(*model_, ids);
      const std::vector<double> hidden(states.end() - one.width, states.end());
      ASSERT_EQ(got.size(), one.heads * MedusaHeads::kRanks);
      for (uint32_t head = 0; head < one.heads; ++head) {
        const std::string name = "medusa." + std::to_string(head) + ".";
        std::vector<double> turned = hidden;
        for (uint32_t layer = 0; layer < one.layers; ++layer) {
          const std::string own = layer == 0 ? name : name + std::to_string(layer) + ".";
          const std::vector<float> bias = floats_of(*file.find(own + "bias"));
          const std::vector<double> branch = product(floats_of(*file.find(own + "weight")), turned);
          for (uint32_t i = 0; i < one.width; ++i) {
            const double z = branch[i] + bias[i];
            turned[i] += z / (1 + std::exp(-z));
          }
        }
        std::vector<double> logits =
            product(one.own_tables ? floats_of(*file.find(name + "output.weight")) : table, turned);
        for (uint32_t row = 0; !one.rows.empty() && row < logits.size(); ++row) {
          bool there = false;
          for (size_t i = 0; i < one.rows.size(); i += 2)
            there |=
                row >= static_cast<uint32_t>(one.rows[i]) && row < static_cast<uint32_t>(one.rows[i] + one.rows[i + 1]);
          if (!there) logits[row] = -INFINITY;
        }
        const auto best = std::ranges::max_element(logits);
        double mass = 0;
        for (const double logit : logits) mass += std::exp(logit - *best);
        const std::span<const abi::Guess> said = std::span(got).subspan(head * MedusaHeads::kRanks);
        ASSERT_LT(said[0].id, logits.size());
        EXPECT_NEAR(logits[said[0].id], *best, 2e-3) << "head " << head;
        EXPECT_GE(said[0].share, 0.98 / mass);  // of the best rows of groups: no less than of all
        EXPECT_LE(said[0].share, 1);
        // The others are in order, and their shares are as their logits are.
        for (uint32_t rank = 1; rank < MedusaHeads::kRanks && said[rank].id < logits.size(); ++rank) {
          EXPECT_LE(said[rank].share, said[rank - 1].share);
          EXPECT_NEAR(std::log(said[rank].share / said[0].share), logits[said[rank].id] - *best, 4e-3) << rank;
        }
      }
    }
  }
}

// Pocket and its heads. Prompts: held-out dialogues up to where their first answer begins.
class PocketHeadsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    model_ = load_model(open_device(), kPocket, Format::q8);
    std::ifstream file(source_folder() / "tests/model/pocket_golden.json");
    tokenizer_.emplace(Tokenizer::from_gguf(open_model(kPocket).metadata, "pocket"));
    const std::vector<uint32_t> mark = tokenizer_->encode("<|im_start|>assistant\n", Tokenizer::Special::parse);
    for (const nlohmann::json& dialogue : nlohmann::json::parse(file)) {
      const auto ids = dialogue.at("ids").get<std::vector<uint32_t>>();
      const auto found =
          std::search(ids.begin(), ids.end(), mark.begin(), mark.end());  // clang 14 has no ranges::search
      ASSERT_NE(found, ids.end());
      prompts_.emplace_back(ids.begin(), found + static_cast<ptrdiff_t>(mark.size()));
      if (prompts_.size() == 6) break;
    }
  }

  std::unique_ptr<Session> session() const {
    auto made = std::make_unique<Session>(*model_, 256, tokenizer_->stop_ids());
    made->set_sampling(greedy());
    return made;
  }
  // At most 60 tokens.
  static std::vector<uint32_t> answer(Session& session, const std::vector<uint32_t>& prompt) {
    std::vector<uint32_t> ids;
    session.prompt(prompt);
    session.generate(60, false, [&](uint32_t id) { return ids.push_back(id), true; });
    return ids;
  }

  std::unique_ptr<Model> model_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::vector<uint32_t>> prompts_;
};

struct Setting {
  const char* name;
  Sampling sampling;
  VocabHead head = {};
  uint32_t logprobs = 0;
};
const Setting kSettings[] = {
    {"greedy", greedy()},
    {"sampled", {.temperature = 0.8f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}},
    {"top-p and penalties",
     {.temperature = 1,
      .top_k = 40,
      .top_p = 0.9f,
      .repeat_penalty = 1.1f,
      .seed = 5,
      .presence_penalty = 0.5f,
      .frequency_penalty = 0.3f}},
    {"certified", greedy(), {.mode = VocabHead::Mode::certified}},
    {"sure, sampled", {.temperature = 0.5f, .top_k = 20, .seed = 6}, {.mode = VocabHead::Mode::sure}},
    {"log-probabilities", greedy(), {}, 5},
};

TEST_F(PocketHeadsTest, TheSameTokensAsWithout) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const auto set = [&] {
      auto made = session();
      made->set_sampling(setting.sampling);
      made->set_head(setting.head);
      if (setting.logprobs > 0) made->set_logprobs(setting.logprobs);
      return made;
    };
    const auto alone = set(), eager = set(), trees = set(), paying = set();
    eager->set_drafter(std::make_unique<Eager>(*eager, kPocketHeads));
    trees->set_drafter(std::make_unique<Eager>(*trees, kPocketHeads, true));
    paying->set_drafter(std::make_unique<Medusa>(*paying, std::make_shared<const ModelFile>(open_model(kPocketHeads))));
    const bool first = &setting == kSettings;
    for (const std::vector<uint32_t>& prompt : std::span(prompts_).first(first ? prompts_.size() : 1)) {
      const std::vector<uint32_t> want = answer(*alone, prompt);
      EXPECT_EQ(answer(*eager, prompt), want);
      EXPECT_EQ(answer(*trees, prompt), want);
      EXPECT_EQ(answer(*paying, prompt), want);
    }
    const SessionStats& stats = eager->stats();
    EXPECT_GT(stats.drafted_tokens, 10u);
    if (first) {
      EXPECT_GT(stats.accepted_tokens, stats.drafted_tokens / 2);
    }
    // A tree has the likeliest guesses of all heads, the chain's among them: a pass accepts more of them.
    const auto accepted = [](const SessionStats& s) {
      return static_cast<double>(s.accepted_tokens) / static_cast<double>(s.checks);
    };
    EXPECT_GT(accepted(trees->stats()), accepted(stats) * (first ? 1.05 : 1.0));
  }
}

TEST_F(PocketHeadsTest, WithAGrammar) {
  const auto trie = std::make_shared<const TokenTrie>(tokenizer_->token_bytes());
  for (const char* regex : {"[A-Za-z ,.\n]{60}", "\\{\"action\":\"[a-z_]+\",\"minutes\":[0-9]+\\}"}) {
    SCOPED_TRACE(regex);
    const auto matched = [&](Session& one) {
      one.set_matcher(std::make_unique<Matcher>(std::make_shared<const Grammar>(Grammar::from_regex(regex, "test")),
                                                trie, tokenizer_->stop_ids()));
      return answer(one, prompts_[0]);
    };
    const auto alone = session(), eager = session();
    eager->set_drafter(std::make_unique<Eager>(*eager, kPocketHeads));
    EXPECT_EQ(matched(*eager), matched(*alone));
    EXPECT_GT(eager->stats().drafted_tokens, 0u);
  }
}

// The session's device is another one after it was lost: the heads are loaded to it.
TEST_F(PocketHeadsTest, OnAnotherDevice) {
  const auto alone = session(), eager = session();
  eager->set_drafter(std::make_unique<Eager>(*eager, kPocketHeads));
  const std::vector<uint32_t> want = answer(*alone, prompts_[1]);
  EXPECT_EQ(answer(*eager, prompts_[1]), want);
  const uint64_t before = eager->stats().accepted_tokens;
  for (Session* one : {alone.get(), eager.get()}) one->leave_device();
  model_->weights = {};
  model_->device = open_device();
  const ModelFile file = open_model(kPocket);
  model_->weights = load_weights(model_->device, file, model_->config, Format::q8, {});
  eager->enter_device();
  EXPECT_EQ(answer(*eager, prompts_[1]), want);
  EXPECT_EQ(eager->stats().accepted_tokens, 2 * before);
}

// Guesses that do not pay end; lookup_test tells when they are tried again. Guesses that take next to nothing go on.
TEST_F(MedusaTest, RestsWhereItDoesNotPay) {
  make(LlamaShape());
  make_medusa(heads_path(), 64, 3, {DType::q8_0, 9, ""}, 2);
  struct Counting : Drafter {
    Counting(std::unique_ptr<Drafter> of, size_t& guesses, Session& session, double pass)
        : of_(std::move(of)), guesses_(guesses), session_(session), pass_(pass) {}
    void begin(std::span<const uint32_t> ids) override { of_->begin(ids); }
    void append(uint32_t id) override { of_->append(id); }
    std::span<const uint32_t> draft(size_t most) override {
      const uint64_t before = session_.stats().readback_bytes;
      const std::span<const uint32_t> found = of_->draft(most);
      if (session_.stats().readback_bytes > before) ++guesses_;
      return found;
    }
    void passed(uint32_t, double) override { of_->passed(1, pass_); }
    size_t resting() const override { return of_->resting(); }
    std::unique_ptr<Drafter> of_;
    size_t& guesses_;
    Session& session_;
    double pass_;
  };
  const auto guesses = [&](double pass) {
    Session session(*model_, 512, {});
    session.set_sampling(greedy());
    size_t count = 0;
    auto drafter = std::make_unique<Medusa>(session, std::make_shared<const ModelFile>(open_model(heads_path())));
    session.set_drafter(std::make_unique<Counting>(std::move(drafter), count, session, pass));
    generate(session, some_ids(11, model_->config.vocab), 300);
    return count;
  };
  const size_t paying = guesses(1000), losing = guesses(1e-9);
  EXPECT_GT(paying, 200u);
  EXPECT_GE(losing, 4u);
  EXPECT_LT(losing, 64u);
}

// Heads are set when the session's last check of a draft was followed by other work: a score, a lens or a batch.
TEST_F(MedusaTest, SetAfterAnotherText) {
  make(LlamaShape());
  make_medusa(heads_path(), 64, 3, {DType::q8_0, 9, ""}, 2);
  const uint32_t vocab = model_->config.vocab;
  const std::vector<uint32_t> ids = some_ids(60, vocab), shorter = some_ids(3, vocab);
  const std::function<void(Session&)> others[] = {
      [&](Session& session) { session.score(shorter); },
      [&](Session& session) {
        session.prompt(shorter);
        session.lens({0, 2, {0}, false}, [](const LensRow&) { return true; });
      },
      [&](Session& session) {
        Session beside(*model_, 256, {});
        beside.prompt(shorter);
        const auto told = [](uint32_t) { return true; };
        generate_batch({{session, 40, true, told}, {beside, 40, true, told}});
      },
  };
  for (const auto& other : others) {
    SCOPED_TRACE(&other - others);
    Session session(*model_, 256, {}), alone(*model_, 256, {});
    session.set_sampling(greedy()), alone.set_sampling(greedy());
    session.set_drafter(std::make_unique<Eager>(session, heads_path()));
    session.prompt(ids);
    session.generate(60, true, [&](uint32_t) { return session.stats().checks == 0; });
    ASSERT_GT(session.stats().checks, 0u);
    session.set_drafter(nullptr);
    other(session);
    session.set_drafter(std::make_unique<Eager>(session, heads_path()));
    EXPECT_EQ(generate(session, ids, 20), generate(alone, ids, 20));
  }
}

class MedusaFileTest : public MedusaTest {
 protected:
  // Returns the error of loading the file that `write` makes; "nothing" if it loads.
  std::string refusal(const std::function<void()>& write, Code code = Code::bad_file) {
    write();
    try {
      const ModelFile file = open_model(heads_path());
      MedusaHeads heads(*model_, file);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "nothing";
  }
  void patch(const std::string& what, const std::string& by) {
    std::ifstream in(heads_path(), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    in.close();
    const size_t at = bytes.rfind(what);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, what.size(), by);
    std::ofstream(heads_path(), std::ios::binary) << bytes;
  }
};

TEST_F(MedusaFileTest, WrongFilesAreRefused) {
  make(LlamaShape());
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const auto good = [&](uint32_t width, uint32_t count) {
    make_medusa(heads_path(), width, count, {DType::f32, 9, ""});
  };
  EXPECT_EQ(refusal([&] { good(64, 3); }), "nothing");
  EXPECT_PRED2(has, refusal([&] { good(96, 3); }, Code::invalid_argument),
               "its heads are of a model of width 96, the session's model has 64");
  EXPECT_PRED2(has, refusal([&] { good(64, 8); }), "it has 8 heads, expected 1 to 7");
  EXPECT_PRED2(has, refusal([&] { good(64, 0); }), "it has 0 heads");
  EXPECT_PRED2(has, refusal([&] {
                 std::filesystem::copy_file(model_path(), heads_path(),
                                            std::filesystem::copy_options::overwrite_existing);
               }),
               "it has no Medusa heads");
  const auto patched = [&](const std::string& what, const std::string& by) {
    return refusal([&] {
      good(64, 3);
      patch(what, by);
    });
  };
  // The number of heads is the last key's value, 4 bytes after the type's 4.
  const std::string key = "medusa.head_count", type = le(uint32_t{kGgufUint32});
  EXPECT_PRED2(has, patched(key + type + le(uint32_t{3}), key + type + le(uint32_t{2})),
               "it has 6 tensors, expected a weight and a bias for each of 2 heads");
  EXPECT_PRED2(has, patched(key, "medusa.hand_count"), "it has no number 'medusa.head_count'");
  EXPECT_PRED2(has, patched("medusa.2.bias", "medusa.2.bios"), "the tensor 'medusa.2.bias' is missing");
  // Dimensions come after the name and their number, innermost first.
  const auto dimensions = [](uint64_t cols, uint64_t rows) {
    return "medusa.1.weight" + le(uint32_t{2}) + le(cols) + le(rows);
  };
  EXPECT_PRED2(has, patched(dimensions(64, 64), dimensions(128, 32)),
               "tensor 'medusa.1.weight' has the shape (32, 128), expected (64, 64)");
  for (const std::vector<int32_t>& rows :
       std::vector<std::vector<int32_t>>{{1, 64}, {0, 0}, {0, 64, 0, 64}, {64, 64, 0, 64}, {448, 65}, {512, 1}})
    EXPECT_PRED2(has, refusal([&] { make_medusa(heads_path(), 64, 3, {.medusa_rows = rows}); }),
                 "expected rows from a multiple of 64 on, in order, of the table's 512");
  for (const std::vector<int32_t>& rows : std::vector<std::vector<int32_t>>{{0}, {-64, 64}, std::vector<int32_t>(34)})
    EXPECT_PRED2(has, refusal([&] { make_medusa(heads_path(), 64, 3, {.medusa_rows = rows}); }),
                 "'medusa.rows' is no list of pairs of numbers");
  for (const float wrong : {NAN, INFINITY}) {
    std::vector<float> row(64);
    made_row("medusa.1.weight", false, 9, 63, row);
    EXPECT_PRED2(has, patched(le(row[62]) + le(row[63]), le(row[62]) + le(wrong)),
                 "tensor 'medusa.1.weight' has a number that is not finite");
    made_row("medusa.0.bias", false, 9, 0, row);
    EXPECT_PRED2(has, patched(le(row[0]) + le(row[1]), le(wrong) + le(row[1])),
                 "tensor 'medusa.0.bias' has a number that is not finite");
  }
}

}  // namespace
}  // namespace weft::test
