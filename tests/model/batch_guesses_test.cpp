// Guesses of several sessions that are checked in one pass: the same ids as each session alone and without guesses.
#include <map>

#include "grammar/matcher.h"
#include "session/continuous_batch.h"
#include "session/lookup.h"
#include "support/failing_call.h"
#include "support/failing_new.h"
#include "support/model_test.h"
#include "support/scripted_drafter.h"
#include "support/source_folder.h"
#include "tokenizer/tokenizer.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

struct Setting {
  const char* name;
  Sampling sampling = greedy();
  VocabHead head = {};
  bool biased = false;
  uint32_t logprobs = 0;
  Format cache = Format::f16;
};

const Setting kGreedy[] = {{"greedy"}};
const Setting kMixed[] = {
    {"greedy"},
    {"sampled", {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3}},
    {"top-k and top-p",
     {.temperature = 1.5f, .top_k = 50, .top_p = 0.9f, .min_p = 0, .seed = 4},
     {},
     false,
     0,
     Format::q8},
    {"penalties and a bias",
     {.temperature = 1, .repeat_penalty = 1.2f, .seed = 5, .presence_penalty = 0.5f, .frequency_penalty = 0.3f},
     {},
     true},
    {"certified", greedy(), {.mode = VocabHead::Mode::certified}},
    {"sure, sampled", {.temperature = 1, .top_k = 20, .seed = 6}, {.mode = VocabHead::Mode::sure}},
    {"log-probabilities", greedy(), {}, false, 5},
    {"greedy with penalties", {.temperature = 0, .repeat_penalty = 1.3f, .frequency_penalty = 0.2f}},
};

class BatchGuessesTest : public GpuTest {
 protected:
  void make(const LlamaShape& shape = LlamaShape()) {
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", Format::q8);
  }
  uint32_t vocab() const { return model_->config.vocab; }
  Ids prompt(uint32_t number) const { return some_ids(3 + 7 * number, vocab()); }
  std::unique_ptr<Session> session(const Setting& setting, uint32_t context = 256, Ids stop_ids = {},
                                   Policy policy = Policy::throughput, StatePlace place = {}) const {
    auto made = std::make_unique<Session>(*model_, context, std::move(stop_ids), setting.cache, policy, nullptr,
                                          std::move(place));
    made->set_sampling(setting.sampling);
    made->set_head(setting.head);
    if (setting.biased) made->set_bias(Ids{3, 7}, std::vector<float>{2, -2});
    made->set_logprobs(setting.logprobs);
    return made;
  }
  // Context of a session that has generated alone, without guesses.
  Ids alone(const Setting& setting, const Ids& prompt, uint32_t count) const {
    const auto single = session(setting);
    generate(*single, prompt, count);
    return single->ids();
  }
  BatchEntry entry(Session& session, uint32_t most) {
    return {session, most, true, [](uint32_t) { return true; }};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Drafts of 1, 3 and 7 tokens need passes of 2, 4 and 8 tokens a session. In each batch one session has no drafter,
// and the others' drafts have other lengths and errors. The caches of greedy ones lie side by side.
TEST_F(BatchGuessesTest, TheSameIdsAsAlone) {
  make();
  constexpr uint32_t kTokens = 30;
  for (const std::span<const Setting> settings : {std::span<const Setting>(kGreedy), std::span<const Setting>(kMixed)})
    for (const auto& [count, longest] : {std::pair(1u, 7u), {3u, 3u}, {8u, 1u}, {8u, 3u}, {8u, 7u}}) {
      SCOPED_TRACE(std::to_string(count) + " sessions, drafts of up to " + std::to_string(longest) + " tokens, " +
                   (settings.size() > 1 ? "mixed" : "greedy"));
      std::vector<std::unique_ptr<Session>> sessions;
      std::vector<BatchEntry> entries;
      std::vector<Ids> texts;
      const auto group = settings.size() == 1 ? std::make_shared<StateGroup>(count) : nullptr;
      for (uint32_t i = 0; i < count; ++i) {
        const Setting& setting = settings[i % settings.size()];
        texts.push_back(alone(setting, prompt(i), kTokens));
        sessions.push_back(session(setting, 256, {}, i == 5 ? Policy::polite : Policy::throughput, {group, i}));
        sessions.back()->prompt(prompt(i));
        const Scripted::Script scripts[] = {along(texts[i], longest, 0, vocab()), along(texts[i], longest, 3, vocab()),
                                            along(texts[i], 1 + longest / 2, 0, vocab()), anything(i, vocab())};
        if (i != 2) sessions.back()->set_drafter(std::make_unique<Scripted>(scripts[i % std::size(scripts)]));
        entries.push_back(entry(*sessions.back(), kTokens));
      }
      EXPECT_EQ(generate_batch(entries), std::vector<Stop>(count, Stop::length));
      for (uint32_t i = 0; i < count; ++i) {
        SCOPED_TRACE(std::string(settings[i % settings.size()].name) + ", session " + std::to_string(i));
        EXPECT_EQ(sessions[i]->ids(), texts[i]);
        const SessionStats& stats = sessions[i]->stats();
        if (i == 2) {
          EXPECT_EQ(stats.checks, 0u);
        } else {
          EXPECT_GT(stats.checks, 0u);
        }
        if (i == 0) {
          EXPECT_EQ(stats.accepted_tokens, stats.drafted_tokens);
        }
        // Rejected drafts leave nothing behind: the session goes on alone like one without drafts.
        sessions[i]->set_drafter(nullptr);
        generate(*sessions[i], texts[i], 5);
        EXPECT_EQ(sessions[i]->ids(), alone(settings[i % settings.size()], texts[i], 5));
      }
    }
}

// Position tables, rings of sliding windows, experts, ALiBi, branches side by side.
TEST_F(BatchGuessesTest, Families) {
  for (const char* family : {"bloom", "gemma3", "gpt2", "mistral", "mixtral", "palm"}) {
    SCOPED_TRACE(family);
    model_ = load_model(open_device(), source_folder() / "tests/model/golden" / family, Format::q8);
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<BatchEntry> entries;
    std::vector<Ids> texts;
    for (uint32_t i = 0; i < 3; ++i) {
      const auto single = session({}, 64);
      generate(*single, prompt(i), 40);
      texts.push_back(single->ids());
      sessions.push_back(session({}, 64));
      sessions.back()->prompt(prompt(i));
      sessions.back()->set_drafter(std::make_unique<Scripted>(along(texts[i], 3 + i, 5, vocab())));
      entries.push_back(entry(*sessions.back(), 40));
    }
    generate_batch(entries);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(sessions[i]->ids(), texts[i]);
      EXPECT_GT(sessions[i]->stats().accepted_tokens, 15u);
    }
  }
}

// The first token of each comes with its prompt; four passes of one token are timed.
TEST_F(BatchGuessesTest, CountsWhatItSaves) {
  make();
  const auto run = [&](bool guesses) {
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<BatchEntry> entries;
    for (uint32_t i = 0; i < 2; ++i) {  // fewer than products read the weights once for
      sessions.push_back(session({}));
      sessions.back()->prompt(prompt(i));
      if (guesses)
        sessions.back()->set_drafter(std::make_unique<Scripted>(along(alone({}, prompt(i), 45), 7, 0, vocab())));
      entries.push_back(entry(*sessions.back(), 45));
    }
    generate_batch(entries);
    std::vector<SessionStats> all;
    for (const auto& one : sessions) all.push_back(one->stats());
    return all;
  };
  const std::vector<SessionStats> without = run(false), with = run(true);
  for (size_t i = 0; i < with.size(); ++i) {
    const SessionStats& stats = with[i];
    EXPECT_EQ(stats.checks, 5u);
    EXPECT_EQ(stats.drafted_tokens, 35u);
    EXPECT_EQ(stats.accepted_tokens, 35u);
    EXPECT_EQ(stats.decoded_tokens, 44u);
    EXPECT_LT(stats.decode_bytes, without[i].decode_bytes * 3 / 4);
  }
}

// Records the pass times that it is told.
class Timed : public Scripted {
 public:
  Timed(Script script, double& seconds) : Scripted(std::move(script)), seconds_(seconds) {}
  void passed(uint32_t, double seconds) override { seconds_ += seconds; }

 private:
  double& seconds_;
};

// A duty's pause is due to the pass before, which may have been of another size.
TEST_F(BatchGuessesTest, PassesAreTimedWithoutPauses) {
  make();
  const Ids text = alone({}, prompt(0), 60);
  const auto polite = session({}, 256, {}, Policy::polite);
  double told = 0, paused = 0;
  polite->set_drafter(std::make_unique<Timed>(along(text, 3, 4, vocab()), told));
  generate(*polite, prompt(0), 60);  // compiles
  told = 0;
  polite->reset();
  polite->duty().set_share(0.1f);
  polite->duty().set_on_pause([&](double seconds) { paused += seconds; });
  generate(*polite, prompt(0), 60);
  EXPECT_EQ(polite->ids(), text);
  EXPECT_GT(polite->stats().checks, 5u);
  EXPECT_GT(told, 0);
  EXPECT_LT(told, paused / 2);  // some ninth of it

  // In a batch in which another session must keep to a share.
  const auto checked = session({});
  checked->set_drafter(std::make_unique<Scripted>(along(text, 0, 0, vocab())));  // is asked, but guesses nothing
  const Session::OnToken ignore = [](uint32_t) { return true; };
  Session::Generation one(*checked, 60, true, ignore), other(*polite, 60, true, ignore);
  polite->set_drafter(nullptr);
  polite->duty().set_share(1);
  for (Session::Generation* const each : {&one, &other}) {
    each->session().prompt(prompt(0));
    each->start(true);
    each->receive_first();
  }
  polite->duty().set_share(0.1f);
  paused = 0;
  BatchCosts costs;
  SharedPasses passes({&one, &other}, costs);
  uint32_t count = 0;
  for (; !passes.closed(); ++count) passes.step([](Session::Generation& each, double) { each.receive(1); });
  EXPECT_EQ(checked->ids(), text);
  EXPECT_GT(costs[2].one().seconds(), 0);
  EXPECT_LT(costs[2].one().seconds() * count, paused / 2);
}

// More sessions than kMostBatchSlots has pairs of rows for.
TEST_F(BatchGuessesTest, LargeBatchesGuessNothing) {
  make();
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<BatchEntry> entries;
  const Ids text = alone({}, prompt(0), 20);
  for (uint32_t i = 0; i < kMostBatchSlots / 2 + 1; ++i) {
    sessions.push_back(session({}, 32));
    sessions.back()->prompt(prompt(0));
    sessions.back()->set_drafter(std::make_unique<Scripted>(along(text, 7, 0, vocab())));
    entries.push_back(entry(*sessions.back(), i == 0 ? 10 : 20));
  }
  generate_batch(entries);
  EXPECT_EQ(sessions[0]->stats().checks, 0u);
  EXPECT_GT(sessions[1]->stats().checks, 0u);  // once the first has left
  EXPECT_EQ(sessions[1]->ids(), text);
}

// Calls a function each time after it has offered guesses.
class Watched : public Scripted {
 public:
  Watched(Script script, std::function<void()> after) : Scripted(std::move(script)), after_(std::move(after)) {}
  std::span<const uint32_t> offer(std::span<double> chances) override {
    const std::span<const uint32_t> guesses = Scripted::offer(chances);
    after_();
    return guesses;
  }

 private:
  std::function<void()> after_;
};

// Memory runs out while a check is prepared: for its buffers, for its first recording, the host's. fail: called just
// before, each time.
TEST_F(BatchGuessesTest, GoesOnWithoutMemoryForGuesses) {
  make();
  const auto check = [&](const std::function<void()>& fail, bool smaller) {
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<BatchEntry> entries;
    std::vector<Ids> texts;
    for (uint32_t i = 0; i < 2; ++i) {
      texts.push_back(alone({}, prompt(i), 40));
      sessions.push_back(session({}));
      sessions.back()->prompt(prompt(i));
      const Scripted::Script script = along(texts[i], 7, 0, vocab());
      sessions.back()->set_drafter(std::make_unique<Watched>(
          script, i == 1 ? fail : [] {}));
      entries.push_back(entry(*sessions.back(), 40));
    }
    generate_batch(entries);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(sessions[i]->ids(), texts[i]);
      EXPECT_EQ(sessions[i]->stats().checks > 0, smaller);
    }
  };
  {
    SCOPED_TRACE("no buffer");
    std::optional<FailCall<&VolkDeviceTable::vkCreateBuffer>> failing;
    check([&] { failing.reset(), failing.emplace(*model_->device, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY); }, false);
    EXPECT_TRUE(failing->failed());
  }
  {
    SCOPED_TRACE("no recording of 8 tokens: those of 4 and 2 are tried");
    std::optional<FailCall<&VolkDeviceTable::vkAllocateCommandBuffers>> failing;
    check(
        [&] {
          if (!failing) failing.emplace(*model_->device, 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        },
        true);
    EXPECT_TRUE(failing->failed());
  }
  {
    SCOPED_TRACE("no memory of the host");
    std::optional<FailAllocation> failing;
    check(
        [&] {
          if (!failing) failing.emplace(1);
        },
        true);
    EXPECT_TRUE(failing->failed());
  }
}

class JoinsAndLeaves : public BatchGuessesTest {
 protected:
  // Steps until the batch is empty. before: called with the number of each step.
  std::map<const Session*, ContinuousBatch::Ended> run(
      ContinuousBatch& batch, const std::function<void(int)>& before = [](int) {}) {
    std::map<const Session*, ContinuousBatch::Ended> ends;
    for (int step = 0; step == 0 || batch.size() > 0; ++step) {
      if (step > 500) {
        ADD_FAILURE() << "it does not end";
        break;
      }
      before(step);
      for (const ContinuousBatch::Ended& end : batch.step()) ends[end.session] = end;
    }
    return ends;
  }
};

TEST_F(JoinsAndLeaves, TheSameIdsAsAlone) {
  make();
  const size_t chunk = model_->device->plan().chunk_tokens;
  const size_t prompts[] = {5, 1, 2 * chunk + 9, chunk, 17, 30};
  ContinuousBatch batch(*model_);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Ids> texts;
  run(batch, [&](int step) {
    const size_t next = sessions.size();
    if (step % 6 != 0 || next == std::size(prompts)) return;
    const Setting& setting = kMixed[next];
    const Ids ids = some_ids(static_cast<uint32_t>(prompts[next]), vocab());
    const uint32_t tokens = static_cast<uint32_t>(40 + 9 * next);
    const auto single = session(setting, static_cast<uint32_t>(8 * chunk));
    generate(*single, ids, tokens);
    texts.push_back(single->ids());
    sessions.push_back(session(setting, static_cast<uint32_t>(8 * chunk)));
    sessions.back()->prompt(ids);
    if (next != 2) sessions.back()->set_drafter(std::make_unique<Scripted>(along(texts.back(), 1 + next, 4, vocab())));
    batch.add(entry(*sessions.back(), tokens));
  });
  ASSERT_EQ(sessions.size(), std::size(prompts));
  for (size_t i = 0; i < sessions.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(sessions[i]->ids(), texts[i]);
    EXPECT_EQ(sessions[i]->stats().checks > 0, i != 2);
  }
}

// A stop token, the context's end, a callback that ends or throws, a cancel: all in the middle of a pass's tokens.
TEST_F(JoinsAndLeaves, SessionsEndWhenTheyMust) {
  make();
  const Ids text = alone({}, prompt(2), 80);
  const size_t start = prompt(2).size();
  size_t place = start + 12;  // a token that comes late, and was not there before
  while (std::find(text.begin(), text.begin() + static_cast<ptrdiff_t>(place), text[place]) !=
         text.begin() + static_cast<ptrdiff_t>(place))
    ASSERT_LT(++place, text.size());
  const auto full_size = static_cast<uint32_t>(start + 20);
  const auto stopped = session({}, 256, {text[place]}), full = session({}, full_size), cancelled = session({}),
             thrown = session({}), ended = session({}), left = session({});
  ContinuousBatch batch(*model_);
  const auto add = [&](const std::unique_ptr<Session>& one, uint32_t most, const Session::OnToken& on_token) {
    one->set_drafter(std::make_unique<Scripted>(along(text, 7, 0, vocab())));
    one->prompt(prompt(2));
    batch.add({*one, most, false, on_token});
  };
  const auto any = [](uint32_t) { return true; };
  add(stopped, 0, any);
  add(full, 0, any);
  add(cancelled, 0, [&](uint32_t) {
    if (cancelled->ids().size() == start + 10) cancelled->cancel();
    return true;
  });
  add(thrown, 0, [&](uint32_t) {
    if (thrown->ids().size() == start + 11) throw std::runtime_error("enough");
    return true;
  });
  add(ended, 0, [&](uint32_t) { return ended->ids().size() < start + 14; });
  add(left, 70, any);
  const auto ends = run(batch);
  const auto part = [&](size_t end) { return Ids(text.begin(), text.begin() + static_cast<ptrdiff_t>(end)); };
  EXPECT_EQ(ends.at(stopped.get()).stop, Stop::token);
  EXPECT_EQ(stopped->ids(), part(place + 1));
  EXPECT_EQ(ends.at(full.get()).stop, Stop::context);
  EXPECT_EQ(full->ids(), part(full_size));
  EXPECT_EQ(ends.at(cancelled.get()).stop, Stop::caller);
  EXPECT_EQ(cancelled->ids(), part(start + 10));
  EXPECT_FALSE(ends.at(thrown.get()).stop);
  EXPECT_THROW(std::rethrow_exception(ends.at(thrown.get()).failure), std::runtime_error);
  EXPECT_EQ(thrown->ids(), part(start + 11));
  EXPECT_EQ(ends.at(ended.get()).stop, Stop::caller);
  EXPECT_EQ(ended->ids(), part(start + 14));
  EXPECT_EQ(ends.at(left.get()).stop, Stop::length);
  EXPECT_EQ(left->ids(), part(start + 70));
  EXPECT_GT(left->stats().checks, 3u);
  // One of them goes on.
  batch.add({*thrown, 20, true, any});
  run(batch);
  EXPECT_EQ(thrown->ids(), part(start + 31));
}

// In passes of its own, beside sessions that share theirs.
TEST_F(JoinsAndLeaves, WithAGrammar) {
  make();
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(folder_.path() / "m.gguf").metadata, "m.gguf");
  const auto trie = std::make_shared<const TokenTrie>(tokenizer.token_bytes());
  const auto bound = [&] {
    auto made = session({});
    made->set_matcher(std::make_unique<Matcher>(
        std::make_shared<const Grammar>(Grammar::from_regex("[a-e ]{3}(foo|bar)[^x]{60}", "test")), trie,
        tokenizer.stop_ids()));
    return made;
  };
  const auto single = bound();
  generate(*single, prompt(1), 40);
  const Ids text = single->ids(), other = alone({}, prompt(3), 40);
  const auto checked = bound(), beside = session({});
  checked->set_drafter(std::make_unique<Scripted>(along(text, 7, 5, vocab())));
  checked->prompt(prompt(1));
  beside->set_drafter(std::make_unique<Scripted>(along(other, 7, 5, vocab())));
  beside->prompt(prompt(3));
  ContinuousBatch batch(*model_);
  batch.add(entry(*checked, 40));
  batch.add(entry(*beside, 40));
  run(batch);
  EXPECT_EQ(checked->ids(), text);
  EXPECT_EQ(beside->ids(), other);
  EXPECT_GT(checked->stats().accepted_tokens, 10u);
  EXPECT_GT(beside->stats().accepted_tokens, 10u);
}

// Real guesses, whose number depends on the costs of passes.
TEST_F(JoinsAndLeaves, Lookup) {
  make();
  ContinuousBatch batch(*model_);
  std::vector<std::unique_ptr<Session>> sessions;
  for (uint32_t i = 0; i < 3; ++i) {
    Ids ids;
    for (int repeat = 0; repeat < 4; ++repeat)
      for (const uint32_t id : prompt(1)) ids.push_back((id + i) % vocab());
    sessions.push_back(session({}));
    sessions.back()->set_drafter(std::make_unique<Lookup>());
    sessions.back()->prompt(ids);
    batch.add(entry(*sessions.back(), 100));
  }
  run(batch);
  for (const auto& one : sessions) {
    const Ids all = one->ids(), ids(all.begin(), all.end() - 100);
    EXPECT_EQ(all, alone({}, ids, 100));
    EXPECT_GT(one->stats().drafted_tokens, 0u);
  }
}

}  // namespace
}  // namespace weft::test
