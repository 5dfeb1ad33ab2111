// Several sessions' tokens in one pass: the same ids as each alone.
#include "session/batch.h"

#include <algorithm>
#include <deque>

#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class BatchTest : public GpuTest {
 protected:
  void make(Format format, const LlamaShape& shape = LlamaShape()) {
    make_gguf(folder_.path() / "m.gguf", shape, {format == Format::q8 ? DType::q8_0 : DType::f16, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", format);
  }
  std::vector<uint32_t> prompt(uint32_t session) const { return some_ids(3 + 17 * session, model_->config.vocab); }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Different prompts, lengths, samplings and heads, and more sessions than a group of tokens.
TEST_F(BatchTest, TheSameIdsAsAlone) {
  for (const Format format : {Format::f16, Format::q8}) {
    make(format);
    for (const uint32_t count : format == Format::f16 ? std::vector{3u} : std::vector{1u, 2u, 11u}) {
      SCOPED_TRACE(std::to_string(count) + " sessions, " + name(format));
      std::vector<std::unique_ptr<Session>> sessions;
      std::vector<std::vector<uint32_t>> alone, together(count);
      std::vector<BatchEntry> entries;
      for (uint32_t i = 0; i < count; ++i) {
        const auto session = [&] {
          // The first's is no rule for all.
          const Format cache = i % 3 == 1 ? Format::q8 : i % 4 == 2 ? Format::q4 : Format::f16;
          auto made = std::make_unique<Session>(*model_, 256, std::vector<uint32_t>(), cache);
          Sampling sampling = greedy();
          if (i % 2 == 1) sampling = {.temperature = 1.0f, .seed = i};
          made->set_sampling(sampling);
          if (i % 3 == 2) made->set_head({.mode = VocabHead::Mode::certified});
          return made;
        };
        alone.push_back(generate(*session(), prompt(i), 5 + i));
        sessions.push_back(session());
        sessions.back()->prompt(prompt(i));
        entries.push_back({*sessions.back(), 5 + i, true, [&together, i](uint32_t id) {
                             together[i].push_back(id);
                             return true;
                           }});
      }
      const std::vector<Stop> stops = generate_batch(entries);
      EXPECT_EQ(together, alone);
      EXPECT_EQ(stops, std::vector<Stop>(count, Stop::length));
      for (uint32_t i = 0; i < count; ++i) {  // and they go on alone as if they had always been
        std::vector<uint32_t> context = prompt(i);
        context.insert(context.end(), alone[i].begin(), alone[i].end());
        EXPECT_EQ(sessions[i]->ids(), context);
      }
    }
  }
}

// Sessions of two groups, whose caches lie side by side but in another order, and a session without a group; when one
// has ended, the others go on. A session of a group that is not in the batch keeps its state.
TEST_F(BatchTest, GroupsGenerateAsAlone) {
  make(Format::q8);
  for (const Format cache : {Format::f16, Format::q8, Format::q4})
    for (const uint32_t count : {2u, 11u}) {
      if (cache == Format::q4 && count > 2) continue;  // it shows nothing new
      SCOPED_TRACE(std::to_string(count) + " sessions, cache " + name(cache));
      const std::shared_ptr<StateGroup> groups[] = {std::make_shared<StateGroup>(count + 1),
                                                    std::make_shared<StateGroup>(count)};
      const auto make_session = [&](StatePlace place) {
        return std::make_unique<Session>(*model_, 256, std::vector<uint32_t>(), cache, Policy::throughput, nullptr,
                                         std::move(place));
      };
      const auto other = make_session({groups[0], count});
      other->set_sampling(greedy());
      const std::vector<uint32_t> others = generate(*other, prompt(3), 6);
      std::vector<std::unique_ptr<Session>> sessions;
      std::vector<std::vector<uint32_t>> alone, together(count);
      std::vector<BatchEntry> entries;
      for (uint32_t i = 0; i < count; ++i) {
        sessions.push_back(
            make_session(i == 4 ? StatePlace() : StatePlace{groups[count > 2 && i % 3 == 0 ? 1 : 0], count - 1 - i}));
        const auto single = make_session({});
        for (Session* session : {single.get(), sessions.back().get()}) {
          session->set_sampling(i % 2 == 1 ? Sampling{.temperature = 1.0f, .seed = i} : greedy());
          if (i % 3 == 2) session->set_head({.mode = VocabHead::Mode::certified});
        }
        alone.push_back(generate(*single, prompt(i), 5 + i));
        sessions.back()->prompt(prompt(i));
        entries.push_back({*sessions.back(), 5 + i, true, [&together, i](uint32_t id) {
                             together[i].push_back(id);
                             return true;
                           }});
      }
      generate_batch(entries);
      EXPECT_EQ(together, alone);
      std::vector<uint32_t> longer = prompt(3);
      longer.insert(longer.end(), others.begin(), others.end());
      const auto fresh = make_session({});
      fresh->set_sampling(greedy());
      EXPECT_EQ(generate(*other, longer, 4), generate(*fresh, longer, 4));
    }
}

// One dispatch of attention for all sessions of a group.
TEST_F(BatchTest, GroupsAttendAtOnce) {
  make(Format::q8);
  const auto attentions = [&](const std::vector<uint32_t>& neighbours, uint32_t tokens) {
    const auto group = std::make_shared<StateGroup>(3u);
    const StepBuffers step(*model_, 64, 64);
    std::deque<ContextState> caches;
    std::deque<Activations> rows;
    const ActivationBuffers activations(*model_, 8, 8);
    const Buffer list(model_->device, "members", 3 * sizeof(abi::BatchMember), Memory::shared);
    Pass pass = {*model_, activations, step, caches.emplace_back(*model_, 64, 64, Format::f16, StatePlace{group, 0}),
                 8};
    for (uint32_t i = 0; i < 3; ++i) {
      if (i > 0) caches.emplace_back(*model_, 64, 64, Format::f16, StatePlace{group, i});
      pass.members.push_back(
          {*model_, rows.emplace_back(activations.rows(i * tokens, tokens)), step, caches.back(), tokens});
    }
    if (!neighbours.empty()) pass.neighbours = {{neighbours, list}};
    std::vector<Dispatch> dispatches;
    Recorder recorder(*model_->device, dispatches);
    record_layer(recorder, pass, 0);
    return std::ranges::count_if(
        dispatches, [](const Dispatch& one) { return std::string_view(one.kernel.shader.name) == "attend"; });
  };
  for (const uint32_t tokens : {1u, 2u}) {
    EXPECT_EQ(attentions({0, 1, 2}, tokens), 1);
    EXPECT_EQ(attentions({2, 0}, tokens), 2);
    EXPECT_EQ(attentions({}, tokens), 3);
  }
}

// If all keys of a layer are too large for one binding, each session has buffers of its own.
TEST_F(BatchTest, GroupsTooLargeForABindingAreApart) {
  make(Format::q8);
  const uint64_t layer = std::get<AttentionState>(ContextState(*model_, 256, 64).layers[0]).cache.keys.bytes;
  for (const uint32_t fit : {2u, 3u}) {
    const auto model = load_model(open_device({.slice_bytes = fit * layer}), folder_.path() / "m.gguf", Format::q8);
    const auto group = std::make_shared<StateGroup>(3u);
    const ContextState first(*model, 256, 64, Format::f16, {group, 0}), last(*model, 256, 64, Format::f16, {group, 2});
    EXPECT_EQ(first.buffers == last.buffers, fit == 3);
    EXPECT_EQ(last.slot, fit == 3 ? 2u : 0u);
    EXPECT_EQ(std::get<AttentionState>(last.layers[0]).cache.keys.offset, fit == 3 ? 2 * layer : 0);
    EXPECT_EQ(last.bytes(), first.bytes());
  }
}

// Position tables, rings of sliding windows, caches that layers share, experts, ALiBi, branches side by side, norms of
// rotated heads and of whole rows, queries that grow, gates of heads.
TEST_F(BatchTest, Families) {
  for (const char* family : {"bloom", "gemma3", "gemma4", "gpt2", "gpt-oss-mxfp4", "hunyuan", "lfm2-moe-tied",
                             "lfm3-gated", "ministral3", "mistral", "mixtral", "olmo2", "palm"}) {
    SCOPED_TRACE(family);
    model_ = load_model(open_device(), source_folder() / "tests/model/golden" / family, Format::q8);
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<std::vector<uint32_t>> alone, together(3);
    std::vector<BatchEntry> entries;
    const auto group = std::make_shared<StateGroup>(3u);
    for (uint32_t i = 0; i < 3; ++i) {
      Session single(*model_, 64, {});
      single.set_sampling(greedy());
      alone.push_back(generate(single, prompt(i), 6));
      sessions.push_back(std::make_unique<Session>(*model_, 64, std::vector<uint32_t>(), Format::f16,
                                                   Policy::throughput, nullptr, StatePlace{group, i}));
      sessions.back()->set_sampling(greedy());
      sessions.back()->prompt(prompt(i));
      entries.push_back({*sessions.back(), 6, true, [&together, i](uint32_t id) {
                           together[i].push_back(id);
                           return true;
                         }});
    }
    generate_batch(entries);
    EXPECT_EQ(together, alone);
  }
}

TEST_F(BatchTest, SessionsEndWhenTheyMust) {
  make(Format::q8);
  const std::vector<uint32_t> text = [&] {
    Session session(*model_, 256, {});
    session.set_sampling(greedy());
    return generate(session, prompt(0), 8);
  }();
  Session stopped(*model_, 256, {text[4]}), full(*model_, 8, {}), cancelled(*model_, 256, {}), left(*model_, 256, {});
  std::vector<uint32_t> seen(4);
  std::vector<BatchEntry> entries;
  for (Session* session : {&stopped, &full, &cancelled, &left}) {
    session->set_sampling(greedy());
    session->prompt(prompt(0));
    const size_t i = entries.size();
    entries.push_back({*session, i == 3 ? 8u : 0u, false, [&, i, session](uint32_t) {
                         if (i == 2 && seen[i] == 1) session->cancel();
                         return ++seen[i] > 0;
                       }});
  }
  EXPECT_EQ(generate_batch(entries), (std::vector<Stop>{Stop::token, Stop::context, Stop::caller, Stop::length}));
  const uint32_t until = static_cast<uint32_t>(std::find(text.begin(), text.end(), text[4]) - text.begin()) + 1;
  EXPECT_EQ(seen, (std::vector<uint32_t>{until, 5, 2, 8}));
  EXPECT_EQ(std::vector<uint32_t>(left.ids().begin() + 3, left.ids().end()), text);
}

TEST_F(BatchTest, RefusesWhatItCannotDo) {
  make(Format::q8);
  const auto code_of = [](const std::vector<BatchEntry>& entries) -> std::optional<Code> {
    try {
      generate_batch(entries);
    } catch (const Error& error) {
      return error.code();
    }
    return std::nullopt;
  };
  const auto any = [](uint32_t) { return true; };
  Session session(*model_, 64, {}), without(*model_, 64, {});
  session.prompt(prompt(0));
  EXPECT_EQ(code_of({}), Code::invalid_argument);
  EXPECT_EQ(code_of({{session, 4, true, any}, {session, 4, true, any}}), Code::invalid_argument);
  EXPECT_EQ(code_of({{session, 4, true, any}, {without, 4, true, any}}), Code::invalid_argument);
  const auto other = load_model(open_device(), folder_.path() / "m.gguf", Format::f16);
  Session foreign(*other, 64, {});
  foreign.prompt(prompt(0));
  EXPECT_EQ(code_of({{session, 4, true, any}, {foreign, 4, true, any}}), Code::invalid_argument);
  EXPECT_EQ(session.ids(), prompt(0));  // nothing was generated
}

}  // namespace
}  // namespace weft::test
