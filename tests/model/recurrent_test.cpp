// Layers with a recurrent state (short convolutions, Gated DeltaNet, Mamba-2), and layers that read another's cache
// (Gemma 4): whatever a session goes back to, and wherever its context comes from, the tokens are those of a session
// that computes the text anew.
#include <algorithm>

#include "session/batch.h"
#include "session/lookup.h"
#include "support/model_test.h"
#include "support/scripted_drafter.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using Ids = std::vector<uint32_t>;

struct Case {
  const char* model;
  Format format;
  bool has_rows;  // the state is the last rows alone, which a copy has all of
  bool recurrent = true;
  bool forgets = false;  // a short window's cache has lost what a prefix of half the text needs
};

class StateTest : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    model_ = load_model(open_device(), source_folder() / "tests/model/golden" / GetParam().model, GetParam().format);
  }
  std::unique_ptr<Session> session(const Ids& ends = {}, StatePlace place = {}) const {
    auto made =
        std::make_unique<Session>(*model_, context_, ends, Format::f16, Policy::throughput, nullptr, std::move(place));
    made->set_sampling(sampling_);
    return made;
  }
  Ids text(uint32_t count) const { return some_ids(count, model_->config.vocab); }
  // The tokens after a text, by a session that has nothing else behind it.
  Ids anew(const Ids& ids, uint32_t count) const { return generate(*session(), ids, count); }

  std::unique_ptr<Model> model_;
  uint32_t context_ = 256;  // tokens
  Sampling sampling_ = greedy();
};

class RecurrentTest : public StateTest {};

Ids go_on(Session& session, uint32_t count) {
  Ids ids;
  session.generate(count, true, [&](uint32_t id) {
    ids.push_back(id);
    return true;
  });
  return ids;
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_P(StateTest, PromptsInChunks) {
  const Ids ids = text(200), want = anew(ids, 12);
  for (const size_t step : {1u, 7u, 64u}) {
    const auto parts = session();
    for (size_t n = step; n < ids.size(); n += step) {
      parts->prompt(std::span(ids).first(n));
      parts->logits();
    }
    EXPECT_EQ(generate(*parts, ids, 12), want) << step;
  }
}

TEST_P(StateTest, GoesBackAnywhere) {
  const Ids ids = text(170);
  const auto edited = session();
  for (const size_t kept : {169u, 168u, 160u, 150u, 129u, 128u, 100u, 64u, 3u, 2u, 1u, 0u}) {
    SCOPED_TRACE(kept);
    generate(*edited, ids, 30);
    Ids other(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(kept));
    for (uint32_t i = 0; i < 20; ++i) other.push_back((ids[kept + i < ids.size() ? kept + i : 0] + 1) % 131);
    EXPECT_EQ(generate(*edited, other, 10), anew(other, 10));
  }
}

// The end of a prompt has a checkpoint, which serves the tokens shortly before it too; and so has a message's end.
TEST_P(RecurrentTest, KeepsWhatACheckpointHas) {
  Ids ids = text(150);
  constexpr uint32_t kEnd = 2;
  std::ranges::replace(ids, kEnd, kEnd + 1);
  const auto reused = [&](Session& session, const Ids& next) {
    const uint64_t before = session.stats().reused_tokens;
    session.prompt(next);
    return session.stats().reused_tokens - before;
  };
  Ids other = ids;
  other[100] = (other[100] + 1) % 131;
  const auto plain = session();
  generate(*plain, ids, 40);
  EXPECT_EQ(reused(*plain, ids), ids.size() - 1);
  EXPECT_EQ(reused(*plain, other), 0u);  // nothing is kept of the middle of a message

  Ids messages = ids;
  messages[29] = messages[59] = messages[69] = messages[79] = messages[145] = kEnd;
  const Ids whole = anew(messages, 10);
  for (const auto& [change, want] :
       {std::pair{100u, GetParam().has_rows ? 80u : 79u}, {75u, 75u}, {65u, 65u}, {31u, 30u}, {15u, 0u}}) {
    const auto chat = session({kEnd});
    EXPECT_EQ(generate(*chat, messages, 10), whole);
    Ids changed = messages;
    changed[change] = (changed[change] + 5) % 131;
    EXPECT_EQ(reused(*chat, changed), want) << change;
    EXPECT_EQ(go_on(*chat, 8), anew(changed, 8));
  }
}

TEST_P(RecurrentTest, MoreCheckpointsThanThereIsRoomFor) {
  const auto chat = session({2});
  Ids context = text(12);
  for (uint32_t turn = 0; turn < 2 * kMostCheckpoints; ++turn) {
    context = joined(context, {2, 5 + turn, 9, 11 + turn});
    EXPECT_EQ(generate(*chat, context, 4), anew(context, 4)) << turn;
    context = chat->ids();
  }
  for (const size_t kept : {90u, 50u, 14u}) {
    Ids other(context.begin(), context.begin() + static_cast<ptrdiff_t>(kept));
    other.push_back(77);
    EXPECT_EQ(generate(*chat, other, 4), anew(other, 4)) << kept;
  }
}

TEST_P(StateTest, CopiesPrefixes) {
  Ids ids = text(140);
  constexpr uint32_t kEnd = 2;
  std::ranges::replace(ids, kEnd, kEnd + 1);
  ids[49] = kEnd;
  Ids other = ids;
  for (size_t i = 70; i < other.size(); ++i) other[i] = (other[i] + 3) % 131;
  const auto group = std::make_shared<StateGroup>(2u);
  for (const bool grouped : {false, true}) {
    const auto first = session({kEnd}, grouped ? StatePlace{group, 0} : StatePlace());
    const auto second = session({kEnd}, grouped ? StatePlace{group, 1} : StatePlace());
    generate(*first, ids, 25);
    second->prompt(other);
    EXPECT_EQ(second->copy_prefix(*first), GetParam().forgets ? 0u : GetParam().recurrent ? 50u : 70u);
    EXPECT_EQ(go_on(*second, 12), anew(other, 12));
    second->prompt(joined(ids, {7}));  // more in common: all of the prompt
    EXPECT_EQ(second->copy_prefix(*first), ids.size());
    EXPECT_EQ(go_on(*second, 12), anew(joined(ids, {7}), 12));
  }
}

TEST_P(StateTest, SavesAndRestores) {
  TemporaryFolder folder;
  for (const uint32_t length : {1u, 2u, 15u, 130u}) {
    const Ids ids = text(length), want = anew(ids, 30);
    const auto first = session(), second = session();
    Ids got = generate(*first, ids, 9);
    first->save(folder.path() / "saved", "");
    generate(*second, text(40), 3);
    second->restore(folder.path() / "saved");
    const uint64_t computed = second->stats().prompt_tokens;
    got = joined(got, go_on(*second, 21));
    EXPECT_EQ(second->stats().prompt_tokens, computed + 1);
    EXPECT_EQ(got, want) << length;
    EXPECT_EQ(generate(*second, ids, 10), anew(ids, 10));
  }
}

TEST_P(StateTest, SavesAfterGoingBack) {
  TemporaryFolder folder;
  const Ids ids = text(120);
  const auto first = session(), second = session();
  generate(*first, ids, 60);
  first->prompt(ids);  // from its checkpoint
  first->save(folder.path() / "saved", "");
  second->restore(folder.path() / "saved");
  EXPECT_EQ(go_on(*second, 20), anew(ids, 20));
  EXPECT_LE(second->stats().prompt_tokens, 2u);
}

// Accepted and refused drafts, in a pass of one session and in those of a batch.
TEST_P(StateTest, DraftsChangeNothing) {
  const Ids ids = text(33), want = anew(ids, 60), all = joined(ids, want);
  const uint32_t vocab = model_->config.vocab;
  const auto drafters = [&] {
    std::vector<std::unique_ptr<Drafter>> made;
    for (const auto& script : {along(all, 7, 0, vocab), along(all, 5, 1, vocab), along(all, 7, 3, vocab),
                               left_behind(all, vocab), anything(8, vocab)})
      made.push_back(std::make_unique<Scripted>(script));
    made.push_back(std::make_unique<Lookup>());
    return made;
  };
  for (auto& drafter : drafters()) {
    const auto drafted = session();
    drafted->set_drafter(std::move(drafter));
    EXPECT_EQ(generate(*drafted, ids, 60), want);
    drafted->set_drafter(nullptr);
    EXPECT_EQ(go_on(*drafted, 5), anew(all, 5));
  }
  for (const bool grouped : {false, true}) {
    const auto group = std::make_shared<StateGroup>(6u);
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<BatchEntry> entries;
    std::vector<Ids> got(6);
    for (auto& drafter : drafters()) {
      const uint32_t i = static_cast<uint32_t>(sessions.size());
      sessions.push_back(session({}, grouped ? StatePlace{group, i} : StatePlace()));
      sessions.back()->prompt(ids);
      sessions.back()->set_drafter(std::move(drafter));
      entries.push_back({*sessions.back(), 60, true, [&got, i](uint32_t id) {
                           got[i].push_back(id);
                           return true;
                         }});
    }
    generate_batch(entries);
    EXPECT_EQ(got, std::vector<Ids>(6, want)) << grouped;
  }
}

TEST_P(StateTest, SessionsOfABatch) {
  const auto group = std::make_shared<StateGroup>(3u);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<BatchEntry> entries;
  std::vector<Ids> want, got(3);
  for (uint32_t i = 0; i < 3; ++i) {
    const Ids ids = text(3 + 50 * i);
    want.push_back(anew(ids, 10 + 4 * i));
    sessions.push_back(session({}, {group, i}));
    sessions.back()->prompt(ids);
    entries.push_back({*sessions.back(), 10 + 4 * i, true, [&got, i](uint32_t id) {
                         got[i].push_back(id);
                         return true;
                       }});
  }
  generate_batch(entries);
  EXPECT_EQ(got, want);
  for (const auto& one : sessions) {
    const Ids context = one->ids();
    EXPECT_EQ(go_on(*one, 5), anew(context, 5));
  }
}

TEST_P(StateTest, LosesItsDevice) {
  const Ids ids = text(80), want = anew(ids, 20);
  const auto lost = session();
  Ids got = generate(*lost, ids, 8);
  lost->leave_device();
  lost->enter_device();
  got = joined(got, go_on(*lost, 12));
  EXPECT_EQ(got, want);
}

// Reading the context once more leaves it as it is. Passes of 64 tokens begin within a window of the state, and at the
// end of one, which a checkpoint cannot go on from.
TEST_P(StateTest, MeasuringChangesNothing) {
  for (const uint32_t length : {140u, 144u}) {
    SCOPED_TRACE(length);
    const Ids ids = text(length), want = anew(ids, 20);
    const auto measured = session();
    measured->prompt(ids);
    if (model_->device->caps().timestamps) {
      for (const uint32_t tokens : {1u, 5u, 64u}) measured->time_passes(tokens, 3);
      EXPECT_EQ(go_on(*measured, 20), want);
      measured->prompt(ids);
      measured->time_checks(8, 2);
    }
    measured->lens({.first = 100, .count = 10, .layers = {1}, .logits = false}, [](const LensRow&) { return true; });
    measured->logits();
    EXPECT_EQ(go_on(*measured, 20), want);
  }
}

// An answer of 2,000 tokens, a hundred at a time, each of them in another way, with the same tokens as all at once.
TEST_P(StateTest, LongAnswers) {
  constexpr uint32_t kTokens = 2000, kPart = 100;
  context_ = model_->config.context = 2304;
  // By chance, which depends on the place: the likeliest tokens soon are the same two again and again.
  sampling_ = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
  TemporaryFolder folder;
  const Ids ids = text(40), want = anew(ids, kTokens), all = joined(ids, want);
  ASSERT_EQ(want.size(), kTokens);
  auto now = session(), other = session();
  now->prompt(ids);
  Ids got;
  const auto take = [&](uint32_t count) { got = joined(got, go_on(*now, count)); };
  for (uint32_t part = 0; got.size() < kTokens; ++part) {
    const uint32_t kind = part % 6;
    SCOPED_TRACE(kind);
    if (kind == 0) {  // cancelled in the midst
      now->generate(kPart, true, [&](uint32_t id) {
        got.push_back(id);
        return got.size() % kPart != 37;
      });
      take(kPart - 37);
    } else if (kind == 1) {
      now->save(folder.path() / "saved", "");
      other->restore(folder.path() / "saved");
      std::swap(now, other);
      take(kPart);
    } else if (kind == 2) {  // some drafts are right, some wrong
      now->set_drafter(std::make_unique<Scripted>(along(all, 7, 3, model_->config.vocab)));
      take(kPart);
      now->set_drafter(nullptr);
    } else if (kind == 3) {  // back, and once more
      now->prompt(std::span(all).first(ids.size() + got.size() - 45));
      got.resize(got.size() - 45);
      take(kPart + 45);
    } else if (kind == 4) {  // beside a session elsewhere
      generate(*other, text(90), 3);
      std::vector<BatchEntry> entries = {{*other, kPart, true, [](uint32_t) { return true; }},
                                         {*now, kPart, true, [&](uint32_t id) {
                                            got.push_back(id);
                                            return true;
                                          }}};
      generate_batch(entries);
    } else {  // the context is another session's prefix
      const Ids context(all.begin(), all.begin() + static_cast<ptrdiff_t>(ids.size() + got.size()));
      other->prompt(context);
      other->copy_prefix(*now);
      std::swap(now, other);
      take(kPart);
    }
    ASSERT_EQ(got, Ids(want.begin(), want.begin() + static_cast<ptrdiff_t>(got.size()))) << got.size();
  }
}

TEST_P(RecurrentTest, MemoryOfCheckpointsCounts) {
  const auto one = session();
  const StateLayout layout(model_->config,
                           {model_->device->plan(), 256, model_->device->plan().chunk_tokens, Format::f16});
  EXPECT_GT(layout.recurrent_bytes, 0u);
  EXPECT_EQ(one->kv_bytes(), layout.bytes + layout.checkpoint_bytes());
}

const Case kRecurrent[] = {{"lfm2-biased-untied", Format::f16, true},
                           {"lfm2-biased-untied", Format::q8, true},
                           {"qwen35", Format::f16, false},
                           {"granite-hybrid", Format::f16, false},
                           {"granite-hybrid", Format::q8, false}};
const Case kOthers[] = {{"gemma4", Format::f16, false, false}, {"lfm3-gated", Format::f16, true, true, true}};

std::string name_of(const testing::TestParamInfo<Case>& instance) {
  std::string text = std::string(instance.param.model) + "_" + name(instance.param.format);
  std::ranges::replace(text, '-', '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Recurrent, StateTest, testing::ValuesIn(kRecurrent), name_of);
INSTANTIATE_TEST_SUITE_P(Others, StateTest, testing::ValuesIn(kOthers), name_of);
INSTANTIATE_TEST_SUITE_P(Models, RecurrentTest, testing::ValuesIn(kRecurrent), name_of);

}  // namespace
}  // namespace weft::test
