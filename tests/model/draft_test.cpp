// Passes that check a draft: the same tokens as without it, whatever the draft is.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "base/error.h"
#include "grammar/matcher.h"
#include "session/draft_model.h"
#include "session/lookup.h"
#include "support/model_test.h"
#include "support/scripted_drafter.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

class DraftTest : public GpuTest {
 protected:
  void make(Format format, const LlamaShape& shape = LlamaShape()) {
    make_gguf(folder_.path() / "m.gguf", shape, {format == Format::q8 ? DType::q8_0 : DType::f16, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", format);
  }
  uint32_t vocab() const { return model_->config.vocab; }
  std::vector<uint32_t> prompt() const { return some_ids(11, vocab()); }

  // Ids and log-probabilities that a session gives.
  struct Told {
    std::vector<uint32_t> ids;
    std::vector<float> logprobs;
  };
  static Told told(Session& session, const std::vector<uint32_t>& prompt, uint32_t count) {
    Told all;
    session.prompt(prompt);
    session.generate(count, true, [&](uint32_t id) {
      all.ids.push_back(id);
      all.logprobs.push_back(session.logprobs().chosen);
      for (const auto& [other, logprob] : session.logprobs().likeliest) all.logprobs.push_back(logprob);
      return true;
    });
    return all;
  }
  // The context after a session has said `count` tokens without drafts.
  static std::vector<uint32_t> text(Session& session, const std::vector<uint32_t>& prompt, uint32_t count) {
    generate(session, prompt, count);
    return session.ids();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

struct Setting {
  const char* name;
  Sampling sampling;
  VocabHead head = {};
  bool biased = false;
  uint32_t logprobs = 0;
};

const Setting kSettings[] = {
    {"greedy", greedy()},
    {"sampled", {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}},
    {"top-k and top-p", {.temperature = 1.5f, .top_k = 50, .top_p = 0.9f, .min_p = 0, .seed = 4}},
    {"penalties and a bias",
     {.temperature = 1, .repeat_penalty = 1.2f, .seed = 5, .presence_penalty = 0.5f, .frequency_penalty = 0.3f},
     {},
     true},
    {"certified", greedy(), {.mode = VocabHead::Mode::certified}},
    {"sure, sampled", {.temperature = 1, .top_k = 20, .seed = 6}, {.mode = VocabHead::Mode::sure}},
    {"sure, top-p",
     {.temperature = 1, .top_k = 0, .top_p = 0.9f, .min_p = 0, .seed = 8},
     {.mode = VocabHead::Mode::sure}},
    {"log-probabilities", greedy(), {}, false, 5},
};

TEST_F(DraftTest, TheSameTokensAsWithout) {
  for (const Format format : {Format::f16, Format::q8}) {
    make(format);
    for (const Setting& setting : kSettings) {
      const bool first = &setting == kSettings;
      if (format == Format::f16 && !first) continue;  // the head's tables come in q8 too
      SCOPED_TRACE(std::string(setting.name) + ", " + name(format));
      const auto session = [&] {
        auto made = std::make_unique<Session>(*model_, 128, std::vector<uint32_t>());
        made->set_sampling(setting.sampling);
        made->set_head(setting.head);
        if (setting.biased) made->set_bias(std::vector<uint32_t>{3, 7}, std::vector<float>{2, -2});
        if (setting.logprobs > 0) made->set_logprobs(setting.logprobs);
        return made;
      };
      const auto alone = session();
      const Told want = told(*alone, prompt(), 40);
      const std::vector<uint32_t> text = alone->ids(), rest = generate(*alone, text, 10);
      struct {
        const char* name;
        std::unique_ptr<Drafter> drafter;
      } drafters[] = {{"right", std::make_unique<Scripted>(along(text, 7, 0, vocab()))},
                      {"right, two at once", std::make_unique<Scripted>(along(text, 2, 0, vocab()))},
                      {"wrong", std::make_unique<Scripted>(along(text, 5, 1, vocab()))},
                      {"each third wrong", std::make_unique<Scripted>(along(text, 7, 3, vocab()))},
                      {"left behind", std::make_unique<Scripted>(left_behind(text, vocab()))},
                      {"anything", std::make_unique<Scripted>(anything(8, vocab()))},
                      {"lookup", std::make_unique<Lookup>()}};
      for (auto& [name, drafter] : drafters) {
        if (!first && (std::string(name).starts_with("right") || std::string(name) == "wrong")) continue;
        SCOPED_TRACE(name);
        const auto checked = session();
        checked->set_drafter(std::move(drafter));
        const Told got = told(*checked, prompt(), 40);
        EXPECT_EQ(got.ids, want.ids);
        ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
        // Products and attention of one token and of several add up in different orders.
        for (size_t i = 0; i < want.logprobs.size(); ++i) EXPECT_NEAR(got.logprobs[i], want.logprobs[i], 1e-4) << i;
        EXPECT_EQ(checked->ids(), text);
        // Rejected drafts leave nothing behind: the session goes on like one without drafts.
        checked->set_drafter(nullptr);
        EXPECT_EQ(generate(*checked, text, 10), rest);
      }
    }
  }
}

TEST_F(DraftTest, ARealModel) {
  const auto path = real_model("smollm2");
  if (!path) GTEST_SKIP() << "SmolLM2 is not in the user's cache: ./run model smollm2";
  const auto model = load_model(open_device(), *path, std::nullopt);
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(*path).metadata, path->string());
  const std::vector<uint32_t> prompt =
      tokenizer.encode("The sea is calm. The sea is calm today. The sky is", Tokenizer::Special::plain);
  const auto session = [&] {
    auto made = std::make_unique<Session>(*model, 64, std::vector<uint32_t>());
    made->set_sampling(greedy());
    return made;
  };
  const auto alone = session();
  generate(*alone, prompt, 16);
  const std::vector<uint32_t> text = alone->ids();
  std::unique_ptr<Drafter> drafters[] = {std::make_unique<Scripted>(along(text, 7, 3, model->config.vocab)),
                                         std::make_unique<Lookup>()};
  for (std::unique_ptr<Drafter>& drafter : drafters) {
    const auto checked = session();
    checked->set_drafter(std::move(drafter));
    generate(*checked, prompt, 16);
    EXPECT_EQ(checked->ids(), text);
    EXPECT_GT(checked->stats().accepted_tokens, 0u);
  }
}

TEST_F(DraftTest, Families) {
  for (const char* family : {"bloom", "gemma3", "gemma4", "gpt2", "mistral", "mixtral", "palm"}) {
    SCOPED_TRACE(family);
    model_ = load_model(open_device(), source_folder() / "tests/model/golden" / family, Format::q8);
    Session alone(*model_, 64, {}), checked(*model_, 64, {});
    for (Session* session : {&alone, &checked}) session->set_sampling(greedy());
    const std::vector<uint32_t> want = text(alone, prompt(), 40);
    checked.set_drafter(std::make_unique<Scripted>(along(want, 6, 5, vocab())));
    EXPECT_EQ(text(checked, prompt(), 40), want);
    EXPECT_GT(checked.stats().accepted_tokens, 20u);
  }
}

// Windows are rings, of 128 slots here: rejected drafts must not overwrite what the next tokens see.
TEST_F(DraftTest, Windows) {
  for (const char* family : {"gemma3", "gemma4", "mistral"}) {
    SCOPED_TRACE(family);
    model_ = load_model(open_device(), source_folder() / "tests/model/golden" / family, Format::f16);
    Session alone(*model_, 256, {}), checked(*model_, 256, {});
    for (Session* session : {&alone, &checked}) session->set_sampling(greedy());
    const std::vector<uint32_t> want = text(alone, prompt(), 240);
    checked.set_drafter(std::make_unique<Scripted>(anything(1, vocab())));
    EXPECT_EQ(text(checked, prompt(), 240), want);
  }
}

TEST_F(DraftTest, CountsWhatItSaves) {
  make(Format::q8);
  Session alone(*model_, 128, {}), right(*model_, 128, {}), wrong(*model_, 128, {});
  for (Session* session : {&alone, &right, &wrong}) session->set_sampling(greedy());
  const std::vector<uint32_t> want = text(alone, prompt(), 41);
  right.set_drafter(std::make_unique<Scripted>(along(want, 7, 0, vocab())));
  text(right, prompt(), 41);  // the first comes with the prompt; forty are five passes
  EXPECT_EQ(right.stats().checks, 5u);
  EXPECT_EQ(right.stats().drafted_tokens, 35u);
  EXPECT_EQ(right.stats().accepted_tokens, 35u);
  EXPECT_EQ(right.stats().decoded_tokens, 40u);
  EXPECT_LT(right.stats().decode_bytes, alone.stats().decode_bytes / 4);
  wrong.set_drafter(std::make_unique<Scripted>(along(want, 3, 1, vocab())));
  text(wrong, prompt(), 41);
  EXPECT_EQ(wrong.stats().checks, 39u);  // one token is left then: nothing to draft after it
  EXPECT_EQ(wrong.stats().accepted_tokens, 0u);
}

TEST_F(DraftTest, EndsWhereItMust) {
  make(Format::q8);
  Session alone(*model_, 128, {});
  alone.set_sampling(greedy());
  const std::vector<uint32_t> want = text(alone, prompt(), 60);
  // A token that comes late, and was not there before.
  size_t place = prompt().size() + 3;
  while (std::find(want.begin(), want.begin() + static_cast<ptrdiff_t>(place), want[place]) !=
         want.begin() + static_cast<ptrdiff_t>(place))
    ASSERT_LT(++place, want.size());
  const auto draft = [&] { return std::make_unique<Scripted>(along(want, 7, 0, vocab())); };
  const auto part = [&](size_t end) {
    return std::vector<uint32_t>(want.begin(), want.begin() + static_cast<ptrdiff_t>(end));
  };
  const auto any = [](uint32_t) { return true; };

  Session stopped(*model_, 128, {want[place]});
  stopped.set_sampling(greedy());
  stopped.set_drafter(draft());
  stopped.prompt(prompt());
  EXPECT_EQ(stopped.generate(0, false, any), Stop::token);
  EXPECT_EQ(stopped.ids(), part(place + 1));

  Session full(*model_, 37, {});
  full.set_sampling(greedy());
  full.set_drafter(draft());
  full.prompt(prompt());
  EXPECT_EQ(full.generate(0, true, any), Stop::context);
  EXPECT_EQ(full.ids(), part(37));

  for (const uint32_t count : {1u, 2u, 3u, 9u, 10u, 16u}) {
    SCOPED_TRACE(count);
    Session few(*model_, 128, {});
    few.set_sampling(greedy());
    few.set_drafter(draft());
    few.prompt(prompt());
    EXPECT_EQ(few.generate(count, true, any), Stop::length);
    EXPECT_EQ(few.ids(), part(prompt().size() + count));
    // The caller stops in the middle of a pass's tokens, and goes on.
    uint32_t seen = 0;
    EXPECT_EQ(few.generate(0, true, [&](uint32_t) { return ++seen < count; }), Stop::caller);
    EXPECT_EQ(few.ids(), part(prompt().size() + 2 * count));
    EXPECT_EQ(few.generate(3, true, any), Stop::length);
    EXPECT_EQ(few.ids(), part(prompt().size() + 2 * count + 3));
  }
}

// A draft model that always guesses, whether it pays or not.
class Eager : public Drafter {
 public:
  Eager(Session& draft, const Session& of, size_t count = kMostDrafted) : model_(draft, of), count_(count) {}
  void begin(std::span<const uint32_t> ids) override { model_.begin(ids); }
  void append(uint32_t id) override { model_.append(id); }
  std::span<const uint32_t> draft(size_t most) override { return model_.guess(std::min(most, count_)); }
  void passed(uint32_t tokens, double seconds) override { model_.passed(tokens, seconds); }

 private:
  DraftModel model_;
  size_t count_;
};

class DraftModelTest : public DraftTest {
 protected:
  // A model of its own that guesses.
  std::unique_ptr<Model> other(const LlamaShape& shape, uint64_t seed = 5) {
    make_gguf(folder_.path() / "draft.gguf", shape, {DType::q8_0, seed, ""});
    return load_model(model_->device, folder_.path() / "draft.gguf", Format::q8);
  }
  std::unique_ptr<Session> session(const Setting& setting) const {
    auto made = std::make_unique<Session>(*model_, 128, std::vector<uint32_t>());
    made->set_sampling(setting.sampling);
    made->set_head(setting.head);
    if (setting.biased) made->set_bias(std::vector<uint32_t>{3, 7}, std::vector<float>{2, -2});
    if (setting.logprobs > 0) made->set_logprobs(setting.logprobs);
    return made;
  }
};

// With the same weights nearly all guesses are right, sampled ones too: both draw with the same noise. With other
// weights nearly none is. The tokens are the same.
TEST_F(DraftModelTest, TheSameTokensAsWithout) {
  make(Format::q8);
  const std::unique_ptr<Model> random = other(LlamaShape(), 77);
  LlamaShape wide;  // another size, and rows that no token of the model has
  wide.width = 32, wide.layers = 1, wide.vocab = 520;
  make_gguf(folder_.path() / "wide.gguf", wide, {DType::q8_0, 78, ""});
  const auto small = load_model(model_->device, folder_.path() / "wide.gguf", Format::q8);
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    const auto alone = session(setting);
    const std::vector<uint32_t> want = text(*alone, prompt(), 40);
    const bool penalties = setting.sampling.presence_penalty != 0;  // which a draft counts from its own prompt
    for (const Model* guesser : {static_cast<const Model*>(model_.get()), static_cast<const Model*>(random.get()),
                                 static_cast<const Model*>(small.get())}) {
      if (guesser != model_.get() && setting.head.mode != VocabHead::Mode::full) continue;
      const auto checked = session(setting);
      Session draft(*guesser, 128, {});
      checked->set_drafter(std::make_unique<Eager>(draft, *checked));
      EXPECT_EQ(text(*checked, prompt(), 40), want);
      const SessionStats& stats = checked->stats();
      ASSERT_GT(stats.drafted_tokens, 20u);
      if (guesser != model_.get()) {
        EXPECT_LT(stats.accepted_tokens, stats.drafted_tokens / 5);
      } else if (!penalties) {
        EXPECT_GT(stats.accepted_tokens, stats.drafted_tokens * 8 / 10);
      }
    }
  }
}

// The draft forgets what the session did not take, and follows when the session gets another context.
TEST_F(DraftModelTest, FollowsItsSession) {
  make(Format::q8);
  Session alone(*model_, 128, {}), checked(*model_, 128, {}), draft(*model_, 100, {});
  for (Session* session : {&alone, &checked}) session->set_sampling({.temperature = 1, .top_k = 0, .seed = 9});
  checked.set_drafter(std::make_unique<Eager>(draft, checked, 3));
  for (const uint32_t length : {11u, 30u, 7u, 90u}) {
    SCOPED_TRACE(length);
    const std::vector<uint32_t> ids = some_ids(length, vocab());
    EXPECT_EQ(text(checked, ids, 20), text(alone, ids, 20));
    EXPECT_LE(draft.ids().size(), 100u);
  }
  // A saved session goes on with guesses from the first token on.
  const auto path = folder_.path() / "saved";
  alone.save(path, "");
  checked.reset();
  checked.restore(path);
  const uint64_t before = checked.stats().drafted_tokens;
  for (Session* session : {&alone, &checked}) session->generate(8, true, [](uint32_t) { return true; });
  EXPECT_EQ(checked.ids(), alone.ids());
  EXPECT_EQ(checked.stats().drafted_tokens, before);  // the draft's context is full
  checked.prompt(prompt());
  alone.prompt(prompt());
  // The caller stops in the middle of a pass's tokens, and goes on.
  for (const uint32_t count : {2u, 3u, 5u}) {
    for (Session* session : {&alone, &checked}) {
      uint32_t seen = 0;
      EXPECT_EQ(session->generate(0, true, [&](uint32_t) { return ++seen < count; }), Stop::caller);
    }
    EXPECT_EQ(checked.ids(), alone.ids());
  }
  EXPECT_GT(checked.stats().drafted_tokens, before);
}

// Guesses end where they do not pay, and are tried again later.
TEST_F(DraftModelTest, RestsWhereItDoesNotPay) {
  make(Format::q8);
  Session session(*model_, 128, {}), draft(*model_, 128, {});
  const auto drafts = [&](double one_pass, bool right) {
    DraftModel model(draft, session);
    std::vector<uint32_t> ids = prompt();
    model.begin(ids);
    EXPECT_TRUE(model.draft(7).empty());  // nothing is known of passes
    for (int i = 0; i < 8; ++i) model.passed(1, one_pass);
    std::vector<size_t> at;
    for (size_t i = 0; ids.size() < 110; ++i) {
      const std::span<const uint32_t> found = model.draft(2);
      const uint32_t next = found.empty() ? 3 : right ? found[0] : (found[0] + 1) % vocab();
      if (!found.empty()) at.push_back(i);
      ids.push_back(next);
      model.append(next);
    }
    return at;
  };
  EXPECT_EQ(drafts(1000, true).size(), 99u);
  const std::vector<size_t> wrong = drafts(1000, false);
  ASSERT_GT(wrong.size(), 4u);
  EXPECT_LT(wrong.size(), 60u);
  EXPECT_GE(*std::ranges::max_element(wrong), 64u);  // once more after its rest
  EXPECT_LT(drafts(1e-9, true).size(), 8u);          // a guess takes longer than the pass that it saves
}

// Times what a drafter and its passes take. The shortest time of a kind counts for all of it: other work on the machine
// delays some, and the first ones compile.
class Timed : public Drafter {
 public:
  explicit Timed(std::unique_ptr<Drafter> of) : of_(std::move(of)) {}
  void begin(std::span<const uint32_t> ids) override { of_->begin(ids); }
  void append(uint32_t id) override { of_->append(id), ++tokens_; }
  std::span<const uint32_t> draft(size_t most) override {
    const auto begin = std::chrono::steady_clock::now();
    const std::span<const uint32_t> found = of_->draft(most);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (found.empty()) return found;
    // A draft that reads missed tokens first is one of few: its own time counts.
    const bool reads = tokens_ > last_ + 4;
    if (reads && last_ > 0) caught_up_ += seconds;
    if (!reads) guessing_.push_back(seconds);
    last_ = tokens_;
    guessed_ += found.size();
    return found;
  }
  void passed(uint32_t tokens, double seconds) override {
    of_->passed(tokens, seconds);
    passes_[tokens].push_back(seconds);
  }
  size_t resting() const override { return of_->resting(); }

  // Time of a text without guesses, as a share of the time with them.
  double ratio() {
    double with = caught_up_ + total(guessing_);
    const double one = shortest(passes_[1]);
    size_t checked = 0;
    for (const auto& [tokens, times] : passes_) {
      if (tokens == 1) continue;
      with += total(times);
      checked += times.size();
    }
    // A check of wrong guesses gives one token.
    const double plain = static_cast<double>(tokens_ - 1);
    return plain * one / (with + (plain - static_cast<double>(checked)) * one);
  }
  size_t guessed() const { return guessed_; }
  size_t last() const { return last_; }  // tokens before the last guess

 private:
  static double shortest(const std::vector<double>& times) {
    return times.empty() ? 0 : *std::ranges::min_element(times);
  }
  static double total(const std::vector<double>& times) { return static_cast<double>(times.size()) * shortest(times); }

  std::unique_ptr<Drafter> of_;
  size_t tokens_ = 0, last_ = 0, guessed_ = 0;
  double caught_up_ = 0;
  std::vector<double> guessing_;
  std::map<uint32_t, std::vector<double>> passes_;
};

// A draft model with other weights is always wrong, up to chance: 512 tokens take at most 1 / 0.95 of their time.
TEST_F(DraftModelTest, WrongGuessesCostLittle) {
  LlamaShape whole;  // large enough that its passes take longer than what surrounds them
  whole.layers = 4, whole.width = 512, whole.ffn = 1024;
  make(Format::q8, whole);
  LlamaShape one_layer = whole;
  one_layer.layers = 1;
  for (const LlamaShape& shape : {whole, one_layer}) {
    const std::unique_ptr<Model> random = other(shape, 77);
    double best = 0;  // of three runs: beside other programs single passes may be long
    for (int run = 0; run < 3 && best < 0.95; ++run) {
      Session plain(*model_, 640, {}), checked(*model_, 640, {}), draft(*random, 640, {});
      for (Session* session : {&plain, &checked}) session->set_sampling(greedy());
      auto timed = std::make_unique<Timed>(std::make_unique<DraftModel>(draft, checked));
      Timed& times = *timed;
      checked.set_drafter(std::move(timed));
      EXPECT_EQ(generate(checked, prompt(), 512), generate(plain, prompt(), 512));
      const SessionStats& stats = checked.stats();
      EXPECT_GT(stats.checks, 0u);
      EXPECT_LT(stats.accepted_tokens, 1 + stats.drafted_tokens / 5);
      best = std::max(best, times.ratio());
      std::cout << shape.layers << " layers: " << times.guessed() << " guesses in 512 tokens, " << stats.accepted_tokens
                << " right; " << times.ratio() << " of the speed without by passes, "
                << plain.stats().decode_seconds / stats.decode_seconds << " by the clock\n";
    }
    EXPECT_GE(best, 0.95);
  }
}

// Probability that a chi-squared of this many degrees of freedom is this large or larger (Wilson and Hilferty 1931: its
// cube root is nearly normal).
double p_value(double chi_squared, double freedom) {
  const double spread = 2 / (9 * freedom), z = (std::cbrt(chi_squared / freedom) - (1 - spread)) / std::sqrt(spread);
  return std::erfc(z / std::sqrt(2)) / 2;
}

// An independent check of the distribution: the tokens after a prompt against the probabilities that the logits give.
// The draft has one layer of the model's two, so that some of its guesses are right. WEFT_DRAFT_TOKENS: how many.
TEST_F(DraftModelTest, TheDistributionIsTheModels) {
  make(Format::f16);
  LlamaShape first;
  first.layers = 1;
  const std::unique_ptr<Model> half = other(first);
  constexpr uint32_t kTop = 3, kTokens = 4;
  const char* const asked = std::getenv("WEFT_DRAFT_TOKENS");
  const uint64_t runs = (asked ? std::strtoull(asked, nullptr, 10) : 1000) / kTokens;
  Session checked(*model_, 64, {}), plain(*model_, 64, {}), draft(*half, 64, {});
  checked.set_drafter(std::make_unique<Eager>(draft, checked, 3));
  std::map<std::vector<uint32_t>, std::map<uint32_t, double>> seen;  // what came after what was generated before
  for (uint64_t run = 0; run < runs; ++run) {
    checked.set_sampling({.temperature = 1, .top_k = kTop, .top_p = 1, .min_p = 0, .seed = run});
    const std::vector<uint32_t> ids = generate(checked, prompt(), kTokens);
    for (size_t i = 0; i < ids.size(); ++i) ++seen[{ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i)}][ids[i]];
  }
  EXPECT_GT(checked.stats().accepted_tokens, checked.stats().drafted_tokens / 50);
  EXPECT_LT(checked.stats().accepted_tokens, checked.stats().drafted_tokens * 9 / 10);
  double chi_squared = 0, freedom = 0;
  for (const auto& [before, counts] : seen) {
    double total = 0;
    for (const auto& [id, count] : counts) total += count;
    std::vector<uint32_t> context = prompt();
    context.insert(context.end(), before.begin(), before.end());
    plain.prompt(context);
    const std::vector<float> logits = plain.logits();
    std::vector<uint32_t> order(logits.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::partial_sort(order, order.begin() + kTop,
                              [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
    order.resize(kTop);
    double sum = 0, least = total;
    for (const uint32_t id : order) sum += std::exp(double{logits[id]} - logits[order[0]]);
    const auto expected = [&](uint32_t id) { return total * std::exp(double{logits[id]} - logits[order[0]]) / sum; };
    for (const uint32_t id : order) least = std::min(least, expected(id));
    for (const auto& [id, count] : counts)
      EXPECT_NE(std::ranges::find(order, id), order.end()) << "token " << id << " is none of the likeliest";
    if (least < 5) continue;  // too few for the approximation
    for (const uint32_t id : order) {
      const auto found = counts.find(id);
      const double off = (found == counts.end() ? 0 : found->second) - expected(id);
      chi_squared += off * off / expected(id);
    }
    freedom += kTop - 1;
  }
  ASSERT_GE(freedom, 10);
  RecordProperty("chi_squared", std::to_string(chi_squared));
  std::cout << "chi-squared " << chi_squared << " of " << freedom
            << " degrees of freedom, p = " << p_value(chi_squared, freedom) << ", " << checked.stats().accepted_tokens
            << " of " << checked.stats().drafted_tokens << " guesses right\n";
  // Its mean is `freedom`, its variance twice that: five standard deviations.
  EXPECT_LT(chi_squared, freedom + 5 * std::sqrt(2 * freedom));
}

// A draft ends where the grammar ends it: what the grammar does not allow is not checked, and what it allows is chosen
// as it would be alone.
TEST_F(DraftModelTest, WithAGrammar) {
  make(Format::q8);
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(folder_.path() / "m.gguf").metadata, "m.gguf");
  const auto trie = std::make_shared<const TokenTrie>(tokenizer.token_bytes());
  for (const char* regex : {"[a-e ]{3}(foo|bar)[^x]{60}", "([ab]|cde){9}"}) {
    for (const Setting& setting : kSettings) {
      if (*regex != '[' && &setting != kSettings) continue;
      SCOPED_TRACE(std::string(regex) + ", " + setting.name);
      struct Ended {
        std::vector<uint32_t> ids;
        Stop stop;
      };
      const auto answer = [&](Session& one) {
        one.set_matcher(std::make_unique<Matcher>(std::make_shared<const Grammar>(Grammar::from_regex(regex, "test")),
                                                  trie, tokenizer.stop_ids()));
        one.prompt(prompt());
        const Stop stop = one.generate(40, true, [](uint32_t) { return true; });
        return Ended{one.ids(), stop};
      };
      const auto alone = session(setting);
      const Ended want = answer(*alone);
      Session draft(*model_, 128, {});
      for (int kind = 0; kind < 3; ++kind) {
        SCOPED_TRACE(kind);
        const auto checked = session(setting);
        if (kind == 0) checked->set_drafter(std::make_unique<Scripted>(along(want.ids, 7, 0, vocab())));
        if (kind == 1) checked->set_drafter(std::make_unique<Scripted>(along(want.ids, 5, 3, vocab())));
        if (kind == 2) checked->set_drafter(std::make_unique<Eager>(draft, *checked));
        const Ended got = answer(*checked);
        EXPECT_EQ(got.ids, want.ids);
        EXPECT_EQ(got.stop, want.stop);
        if (kind == 0 && want.ids.size() > prompt().size() + 9) {
          EXPECT_GT(checked->stats().accepted_tokens, 5u);
        }
      }
    }
  }
}

// A draft whose weights are damaged guesses nothing, and the text is the same.
TEST_F(DraftModelTest, WithoutAFiniteLogit) {
  make(Format::q8);
  const std::unique_ptr<Model> damaged = other(LlamaShape());
  const uint32_t not_a_number = 0x7fc00000;
  run_once(damaged->device, "damage", [&](Recorder& r) { r.fill(damaged->weights.final_norm, not_a_number); });
  const std::vector<uint32_t> want = text(*session(kSettings[0]), prompt(), 20);
  const auto checked = session(kSettings[0]);
  Session draft(*damaged, 128, {});
  checked->set_drafter(std::make_unique<Eager>(draft, *checked));
  draft.set_head({});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(text(*checked, prompt(), 20), want);
  EXPECT_EQ(checked->stats().drafted_tokens, 0u);
}

// Drafts whose table no partial head reads: one with the file's bits, and one of several softmaxes.
TEST_F(DraftModelTest, TablesThatAreReadWhole) {
  const auto softmaxes =
      load_model(open_device(), source_folder() / "tests/model/golden_softmaxes/mixture/model.gguf", Format::f16);
  LlamaShape shape;
  shape.vocab = softmaxes->config.vocab;
  make(Format::q8, shape);
  shape.width = 256, shape.ffn = 512;
  make_gguf(folder_.path() / "native.gguf", shape, {DType::q6_k, 5, ""});
  DeviceFormats native;
  native.native_table = true;
  const auto plain = load_model(model_->device, folder_.path() / "native.gguf", native);
  const std::vector<uint32_t> want = text(*session(kSettings[0]), prompt(), 20);
  for (const Model* guesser : {plain.get(), softmaxes.get()}) {
    const auto checked = session(kSettings[0]);
    Session draft(*guesser, 128, {});
    checked->set_drafter(std::make_unique<Eager>(draft, *checked));
    EXPECT_EQ(text(*checked, prompt(), 20), want);
    EXPECT_GT(checked->stats().drafted_tokens, 0u);
  }
}

TEST_F(DraftModelTest, AnEncoderDecoderIsNone) {
  make(Format::q8);
  const auto t5 = load_model(model_->device, source_folder() / "tests/model/golden_seq2seq/t5", Format::q8);
  Session decoder(*model_, 64, {}), answers(*t5, 64, {});
  EXPECT_THROW(DraftModel(answers, decoder), Error);
  EXPECT_THROW(DraftModel(decoder, answers), Error);
}

}  // namespace
}  // namespace weft::test
