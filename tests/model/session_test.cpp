// A session: prompts in chunks, kept prefixes, stopping, sampling, scoring.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#include "base/error.h"
#include "session/profile.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

class SessionTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    LlamaShape shape;
    shape.context = 512;
    make_gguf(folder_.path() / "m.gguf", shape, {DType::q8_0, 5, ""});
    model_ = load_model(open_device(), folder_.path() / "m.gguf", Format::q8);
  }
  std::vector<uint32_t> ids(uint32_t count) const { return some_ids(count, model_->config.vocab); }

  TemporaryFolder folder_;
  std::unique_ptr<Model> model_;
};

// Every way to the same context gives the same next tokens.
TEST_F(SessionTest, ChunksAndSingleTokensAgree) {
  for (const uint32_t length : {1u, 2u, 63u, 64u, 65u, 129u}) {
    Session whole(*model_, 256, {}), stepped(*model_, 256, {});
    whole.set_sampling(greedy());
    stepped.set_sampling(greedy());
    const std::vector<uint32_t> prompt = ids(length), expected = generate(whole, prompt, 20);
    std::vector<uint32_t> got;
    for (uint32_t i = 1; i <= length; ++i) got = generate(stepped, {prompt.begin(), prompt.begin() + i}, 1);
    for (uint32_t i = 1; i < 20; ++i) {
      const std::vector<uint32_t> next = generate(stepped, stepped.ids(), 1);
      got.insert(got.end(), next.begin(), next.end());
    }
    EXPECT_EQ(got, expected) << "prompt of " << length;
  }
}

// The token comes again, also if it was computed.
TEST_F(SessionTest, DropsItsLastToken) {
  Session session(*model_, 256, {});
  session.set_sampling(greedy());
  EXPECT_THROW(session.drop_last(), Error);
  const std::vector<uint32_t> prompt = ids(70), told = generate(session, prompt, 5);
  const std::vector<uint32_t> whole = session.ids();
  for (const bool computed : {false, true}) {
    if (computed) session.logits();
    session.drop_last();
    EXPECT_EQ(session.ids().size(), 74u);
    EXPECT_LE(session.computed_tokens(), 74u);
    session.generate(1, true, [](uint32_t) { return true; });
    EXPECT_EQ(session.ids(), whole);
  }
  for (size_t i = 0; i < told.size(); ++i) session.drop_last();
  EXPECT_EQ(session.ids(), prompt);
  EXPECT_THROW(session.drop_last(), Error);  // it is the prompt's
  session.generate(5, true, [](uint32_t) { return true; });
  EXPECT_EQ(session.ids(), whole);
}

TEST_F(SessionTest, KeepsTheCommonPrefix) {
  Session session(*model_, 256, {});
  session.set_sampling(greedy());
  const std::vector<uint32_t> first = ids(100);
  generate(session, first, 5);
  EXPECT_EQ(session.stats().prompt_tokens, 100u);
  std::vector<uint32_t> second(first.begin(), first.begin() + 90);
  second.push_back(3);
  second.push_back(4);
  const std::vector<uint32_t> with_prefix = generate(session, second, 10);
  EXPECT_EQ(session.stats().prompt_tokens, 102u);
  EXPECT_EQ(session.stats().reused_tokens, 90u);
  Session fresh(*model_, 256, {});
  fresh.set_sampling(greedy());
  EXPECT_EQ(with_prefix, generate(fresh, second, 10));
}

// Rounding keys and values to q8 costs as little as rounding weights to it may: 1e-3 nats. Layers whose ring wraps too.
// Random weights have no large dimensions of keys, so q4 costs little here; docs/measurements.md has real models.
TEST_F(SessionTest, RoundedCaches) {
  LlamaShape shape;
  shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 64, shape.context = 512;
  make_gguf(folder_.path() / "wide.gguf", shape, {DType::f16, 5, ""});
  const auto rings = source_folder() / "tests/model/golden-long/gemma3";
  for (const auto& path : {folder_.path() / "wide.gguf", rings}) {
    SCOPED_TRACE(path.filename().string());
    const auto model = load_model(open_device(), path, Format::f16);
    Session exact(*model, 512, {});
    // Bytes of 64 numbers, half of them of keys: 128 in f16.
    const std::tuple<ops::CacheFormat, double, uint64_t> formats[] = {
        {Format::q8, 1e-3, 68}, {Format::q4, 1e-1, 40}, {{Format::q8, Format::q4}, 1e-1, 54}};
    for (const auto& [format, most, bytes] : formats) {
      Session rounded(*model, 512, {}, format);
      double worst = 0;
      for (const uint32_t length : {2u, 64u, 65u, 400u}) {
        const std::vector<uint32_t> prompt = some_ids(length, model->config.vocab);
        exact.prompt(prompt);
        rounded.prompt(prompt);
        const std::vector<float> p = exact.logits(), q = rounded.logits();
        worst = std::max(worst, divergence({p.begin(), p.end()}, {q.begin(), q.end()}));
        EXPECT_NE(p, q) << length << " tokens";
      }
      std::printf("%s, %s: %.1e nats\n", path.filename().c_str(), name(format).c_str(), worst);
      EXPECT_LT(worst, most) << name(format);
      if (path != rings) {
        EXPECT_EQ(rounded.kv_bytes() * 128, exact.kv_bytes() * bytes) << name(format);
      }
    }
  }
}

TEST_F(SessionTest, QueriesThatAreNormedLaterKeepOtherKeys) {
  const auto model = load_model(open_device(), source_folder() / "tests/model/golden/hunyuan", Format::f16);
  EXPECT_THROW(Session(*model, 64, {}, Format::q4), Error);
  EXPECT_NO_THROW(Session(*model, 64, {}, {Format::q8, Format::q4}));
}

TEST_F(SessionTest, ReadsARingEntryAToken) {
  Session session(*model_, 256, {});
  generate(session, ids(10), 50);
  EXPECT_EQ(session.stats().readback_bytes, 50u * 24);
}

TEST_F(SessionTest, BiasForcesAndForbids) {
  Session session(*model_, 256, {});
  session.set_sampling(greedy());
  const std::vector<uint32_t> plain = generate(session, ids(10), 20);
  const std::vector<uint32_t> forced = {17};
  const float most = 100, least = -100;
  session.set_bias(forced, {&most, 1});
  EXPECT_EQ(generate(session, ids(10), 20), std::vector<uint32_t>(20, 17));
  session.set_bias({plain.data(), 1}, {&least, 1});
  EXPECT_EQ(std::ranges::count(generate(session, ids(10), 20), plain[0]), 0);
  session.set_bias({}, {});
  EXPECT_EQ(generate(session, ids(10), 20), plain);
}

// A frequency penalty counts what was generated since the prompt, over as many generates as it takes.
TEST_F(SessionTest, PenaltiesCountGeneratedTokens) {
  Session session(*model_, 256, {}), stepped(*model_, 256, {});
  Sampling sampling = greedy();
  sampling.frequency_penalty = 2;
  sampling.presence_penalty = 1;
  session.set_sampling(sampling);
  stepped.set_sampling(sampling);
  const std::vector<uint32_t> all = generate(session, ids(10), 30);
  stepped.prompt(ids(10));
  std::vector<uint32_t> steps;
  for (int i = 0; i < 30; ++i)
    stepped.generate(1, true, [&](uint32_t id) {
      steps.push_back(id);
      return true;
    });
  EXPECT_EQ(steps, all);
  // By hand: the logits minus the penalties of the counts.
  std::vector<uint32_t> context = ids(10), by_hand;
  std::vector<uint32_t> counts(model_->config.vocab);
  Session plain(*model_, 256, {});
  for (int i = 0; i < 30; ++i) {
    plain.prompt(context);
    std::vector<float> logits = plain.logits();
    for (uint32_t id = 0; id < logits.size(); ++id)
      if (counts[id] > 0) logits[id] -= 1 + 2 * static_cast<float>(counts[id]);
    const auto best = static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin());
    ++counts[best];
    by_hand.push_back(best);
    context.push_back(best);
  }
  EXPECT_EQ(by_hand, all);
}

TEST_F(SessionTest, RefusesSettingsOutOfRange) {
  Session session(*model_, 256, {});
  const auto refused = [&](float Sampling::*field, std::initializer_list<float> values, const std::string& place) {
    for (const float value : values) {
      Sampling sampling = greedy();
      sampling.*field = value;
      try {
        session.set_sampling(sampling);
        ADD_FAILURE() << place << " " << value;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument);
        EXPECT_EQ(error.place(), place);
        EXPECT_NE(error.sentence().find("expected"), std::string::npos) << error.what();
      }
    }
  };
  refused(&Sampling::temperature, {NAN, INFINITY, -1, 1e-5f}, "temperature");
  refused(&Sampling::top_p, {NAN, 0, 1.1f}, "top_p");
  refused(&Sampling::min_p, {NAN, -0.1f, 1.1f}, "min_p");
  refused(&Sampling::repeat_penalty, {NAN, INFINITY, 0, -1}, "repeat_penalty");
  refused(&Sampling::presence_penalty, {NAN, -2.1f, 2.1f, INFINITY}, "presence_penalty");
  refused(&Sampling::frequency_penalty, {NAN, -2.1f, 2.1f, -INFINITY}, "frequency_penalty");
  refused(&Sampling::typical_p, {NAN, 0, 1.1f}, "typical_p");
  const uint32_t id = 3, outside = model_->config.vocab;
  const float good = 1;
  for (const float bias : {NAN, 101.0f, -INFINITY}) EXPECT_THROW(session.set_bias({&id, 1}, {&bias, 1}), Error);
  EXPECT_THROW(session.set_bias({&outside, 1}, {&good, 1}), Error);
  EXPECT_THROW(session.set_logprobs(MAX_LOGPROBS + 1), Error);
}

TEST_F(SessionTest, StopsAtAStopToken) {
  Session session(*model_, 256, {});
  session.set_sampling(greedy());
  const std::vector<uint32_t> all = generate(session, ids(10), 30);
  // The first token that did not come before is the one to stop at.
  size_t at = 1;
  while (at < all.size() && std::find(all.begin(), all.begin() + at, all[at]) != all.begin() + at) ++at;
  ASSERT_LT(at, all.size());
  Session stopping(*model_, 256, {all[at]});
  stopping.set_sampling(greedy());
  stopping.prompt(ids(10));
  std::vector<uint32_t> got;
  const auto collect = [&](uint32_t id) {
    got.push_back(id);
    return true;
  };
  EXPECT_EQ(stopping.generate(30, false, collect), Stop::token);
  EXPECT_EQ(got, std::vector<uint32_t>(all.begin(), all.begin() + at + 1));
  // Going on after it gives what would have come.
  EXPECT_EQ(stopping.generate(1, true, collect), Stop::length);
  ASSERT_LT(at + 1, all.size());
  EXPECT_EQ(got.back(), all[at + 1]);
}

TEST_F(SessionTest, StopsWhenTheCallerSaysSo) {
  Session session(*model_, 256, {}), other(*model_, 256, {});
  session.set_sampling(greedy());
  other.set_sampling(greedy());
  const std::vector<uint32_t> all = generate(other, ids(10), 30);
  session.prompt(ids(10));
  std::vector<uint32_t> got;
  EXPECT_EQ(session.generate(30, true,
                             [&](uint32_t id) {
                               got.push_back(id);
                               return got.size() < 7;
                             }),
            Stop::caller);
  session.generate(23, true, [&](uint32_t id) {
    got.push_back(id);
    return true;
  });
  EXPECT_EQ(got, all);  // the tokens that ran ahead left no trace
}

TEST_F(SessionTest, CancelEndsGeneratesAtTheirStartUntilItIsCleared) {
  Session session(*model_, 256, {});
  session.prompt(ids(10));
  session.cancel();
  int calls = 0;
  EXPECT_EQ(session.generate(5, true, [&](uint32_t) { return ++calls > 0; }), Stop::caller);
  EXPECT_EQ(session.generate(5, true, [&](uint32_t) { return ++calls > 0; }), Stop::caller);
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(session.clear_cancel());
  EXPECT_FALSE(session.clear_cancel());
  EXPECT_EQ(session.generate(5, true, [&](uint32_t) { return ++calls > 0; }), Stop::length);
}

TEST_F(SessionTest, ACancelWithTheLastTokenStaysToo) {
  Session session(*model_, 256, {});
  session.prompt(ids(10));
  EXPECT_EQ(session.generate(5, true,
                             [&](uint32_t) {
                               session.cancel();
                               return false;  // it ends here anyway
                             }),
            Stop::caller);
  int calls = 0;
  EXPECT_EQ(session.generate(2, true, [&](uint32_t) { return ++calls > 0; }), Stop::caller);
  session.clear_cancel();
  EXPECT_EQ(session.generate(2, true, [&](uint32_t) { return ++calls > 0; }), Stop::length);
  EXPECT_EQ(calls, 2);
}

TEST_F(SessionTest, AnExceptionOfTheCallbackLeavesTheSessionUsable) {
  Session session(*model_, 256, {}), other(*model_, 256, {});
  session.set_sampling(greedy());
  other.set_sampling(greedy());
  session.prompt(ids(10));
  EXPECT_THROW(session.generate(5, true, [](uint32_t) -> bool { throw std::runtime_error("enough"); }),
               std::runtime_error);
  EXPECT_EQ(session.queue().count(), 0u);  // nothing is in flight when the buffers are written again
  EXPECT_EQ(generate(session, ids(10), 10), generate(other, ids(10), 10));
}

TEST_F(SessionTest, FillsTheContextAndNoMore) {
  Session session(*model_, 80, {});
  session.set_sampling(greedy());
  session.prompt(ids(70));
  std::vector<uint32_t> got;
  const auto collect = [&](uint32_t id) {
    got.push_back(id);
    return true;
  };
  EXPECT_EQ(session.generate(0, true, collect), Stop::context);
  EXPECT_EQ(got.size(), 10u);
  EXPECT_EQ(session.generate(1, true, collect), Stop::context);
  EXPECT_EQ(got.size(), 10u);
  Session roomy(*model_, 200, {});
  roomy.set_sampling(greedy());
  EXPECT_EQ(got, generate(roomy, ids(70), 10));
  try {
    session.prompt(ids(80));
    FAIL() << "a prompt that leaves no room was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::context_full);
    EXPECT_EQ(e.sentence(), "80 tokens were given, the session holds 79");
  }
}

TEST_F(SessionTest, RefusesBadInput) {
  Session session(*model_, 80, {});
  const auto refused = [](const auto& call, const std::string& sentence) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << sentence;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      EXPECT_EQ(e.sentence(), sentence);
    }
  };
  refused([&] { session.prompt({}); }, "it has no token");
  const std::vector<uint32_t> outside = {1, 2, 512};
  refused([&] { session.prompt(outside); }, "id 512 at place 2, the vocabulary has 512 tokens");
  refused([&] { session.generate(1, true, [](uint32_t) { return true; }); }, "the session has no prompt");
  Sampling sampling;
  sampling.top_p = 0;
  refused([&] { session.set_sampling(sampling); }, "it is 0, expected above 0 and at most 1");
  sampling = {};
  sampling.temperature = NAN;
  refused([&] { session.set_sampling(sampling); }, "it is nan, expected 0 or more");
}

TEST_F(SessionTest, SeedsDecideAndRepeat) {
  Sampling sampling;
  sampling.temperature = 1.5f;
  sampling.top_k = 0;
  sampling.top_p = 1;
  sampling.min_p = 0;
  std::vector<std::vector<uint32_t>> texts;
  for (const uint64_t seed : {1ull, 1ull, 2ull, (1ull << 40) + 1}) {
    Session session(*model_, 256, {});
    sampling.seed = seed;
    session.set_sampling(sampling);
    texts.push_back(generate(session, ids(10), 40));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0], texts[2]);
  EXPECT_NE(texts[0], texts[3]);
}

TEST_F(SessionTest, PenaltyAvoidsWhatIsInTheContext) {
  Session session(*model_, 256, {});
  Sampling sampling = greedy();
  sampling.repeat_penalty = 1e6f;  // as good as a ban
  session.set_sampling(sampling);
  const std::vector<uint32_t> prompt = ids(30), got = generate(session, prompt, 60);
  std::vector<uint32_t> all = prompt;
  for (const uint32_t id : got) {
    EXPECT_EQ(std::find(all.begin(), all.end(), id), all.end()) << id << " came again";
    all.push_back(id);
  }
}

TEST_F(SessionTest, ScoresEqualTheLogits) {
  Session scoring(*model_, 256, {}), reading(*model_, 256, {});
  const std::vector<uint32_t> text = ids(137);
  const std::vector<float> nll = scoring.score(text);
  ASSERT_EQ(nll.size(), 136u);
  for (const size_t length : {1u, 8u, 63u, 64u, 65u, 130u, 136u}) {
    reading.prompt({text.data(), length});
    const std::vector<float> logits = reading.logits();
    double total = 0;
    for (const float logit : logits) total += std::exp(double{logit});
    EXPECT_NEAR(nll[length - 1], std::log(total) - logits[text[length]], 1e-4) << "token " << length;
  }
}

// With the vocabulary of Gemma 3. The logits of a group of tokens are there at once, never those of all tokens.
TEST_F(SessionTest, ScoringTakesNoMoreMemoryForMoreTokens) {
  LlamaShape shape;
  shape.vocab = 262144, shape.layers = 1, shape.context = 512;
  make_gguf(folder_.path() / "rows.gguf", shape, {DType::q8_0, 5, ""});
  const auto device = Device::open({}, plan_of);
  const auto model = load_model(device, folder_.path() / "rows.gguf", Format::q8);
  Session session(*model, 512, {});
  const uint64_t before = device->memory_use().device, row = uint64_t{shape.vocab} * 4;
  EXPECT_EQ(device->memory_use().most_device, before);
  uint64_t first = 0;
  for (const uint32_t tokens : {16u, 512u}) {
    const std::vector<float> nll = session.score(some_ids(tokens, shape.vocab));
    EXPECT_TRUE(std::ranges::all_of(nll, [](float value) { return value > 0 && value < 100; }));
    const uint64_t taken = device->memory_use().most_device - before;
    std::cout << "scoring " << tokens << " tokens over " << shape.vocab << " rows takes " << taken
              << " bytes more, their logits have " << tokens * row << "\n";
    EXPECT_LE(taken, device->plan().block_tokens * row + (64 << 10));
    if (first == 0) first = taken;
    EXPECT_EQ(taken, first);
  }
}

TEST_F(SessionTest, TimesItsStagesWhereTheDeviceCan) {
  Session session(*model_, 256, {});
  generate(session, ids(10), 40);
  if (model_->device->plan().profile_every == 0) GTEST_SKIP() << "the device has no timestamps";
  std::vector<std::string> names;
  for (const Timestamps::Stage& stage : session.stats().stages) names.push_back(stage.name);
  // Gates whose rows do not fill tiles need activate; other operations compute rope and norms.
  const std::vector<std::string> stages = {"gather",   "rotate", "matmul", "attend", "activate", "project",
                                           "penalize", "narrow", "filter", "sample", "advance"};
  EXPECT_EQ(names, stages);
}

TEST_F(SessionTest, ProfilesWholePassesAndGoesOnAsBefore) {
  if (!model_->device->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  Session session(*model_, 256, {}), untouched(*model_, 256, {});
  session.set_sampling(greedy());
  untouched.set_sampling(greedy());
  const std::vector<uint32_t> prompt = ids(100), expected = generate(untouched, prompt, 30);
  std::vector<uint32_t> got = generate(session, prompt, 10);
  const PassProfile token = profile_pass(session, 1, 1), chunk = profile_pass(session, 1000, 2);
  const std::vector<uint32_t> context = session.ids(), rest = generate(session, context, 20);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, expected);
  EXPECT_EQ(context.size(), 110u);
  EXPECT_EQ(token.tokens, 1u);
  EXPECT_EQ(token.position, 109u);
  EXPECT_EQ(chunk.tokens, std::min(model_->device->plan().chunk_tokens, 110u));
  EXPECT_EQ(chunk.position, 110 - chunk.tokens);
  const Config& config = model_->config;
  for (const PassProfile& profile : {token, chunk}) {
    double sum = 0;
    for (const PassProfile::Stage& stage : profile.stages) {
      const std::string name = stage.name;
      sum += stage.seconds;
      if (name == "rope" || name == "attend") {
        EXPECT_EQ(stage.dispatches, config.layers) << name;
      } else if (name == "project") {
        EXPECT_EQ(stage.bytes, double(model_->weights.output_table().buffer().bytes()));
      } else if (name == "matmul") {
        EXPECT_GT(stage.multiplies, stage.bytes * profile.tokens * 0.8);  // q8: a byte or so a weight
      }
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum + profile.between, profile.submitted);
  }
  Session empty(*model_, 256, {});
  EXPECT_THROW(profile_pass(empty, 1, 1), Error);
  EXPECT_THROW(profile_pass(session, 0, 1), Error);
}

TEST_F(SessionTest, ProfilesATokenAfterAContextThatIsNotComputed) {
  Session session(*model_, 256, {});
  session.set_sampling(greedy());
  if (!model_->device->caps().timestamps) {  // it fails, and leaves none of its zeros as a computed context
    const std::vector<uint32_t> zeros(10, 0), expected = generate(session, zeros, 20);
    EXPECT_THROW(profile_after(session, 100, 1), Error);
    EXPECT_EQ(generate(session, zeros, 20), expected);
    return;
  }
  const std::vector<uint32_t> expected = generate(session, ids(10), 20);
  double before = 0;
  for (const uint32_t position : {0u, 100u, 254u}) {
    const PassProfile profile = profile_after(session, position, 1);
    EXPECT_EQ(profile.position, position);
    EXPECT_EQ(profile.tokens, 1u);
    for (const PassProfile::Stage& stage : profile.stages)
      if (stage.name == std::string("attend")) {
        EXPECT_GT(stage.bytes, before);
        before = stage.bytes;
      }
  }
  EXPECT_TRUE(session.ids().empty());
  EXPECT_THROW(profile_after(session, 255, 1), Error);
  EXPECT_EQ(generate(session, ids(10), 20), expected);
}

// The known greedy continuations in ../shared, made in fp32 by another program.
void check_real(const std::filesystem::path& folder, const std::filesystem::path& model_path, Format format,
                size_t least) {
  std::ifstream file(folder / "greedy-from-bos.ids");
  const std::vector<uint32_t> expected{std::istream_iterator<uint32_t>(file), {}};
  ASSERT_GT(expected.size(), 100u);
  const auto model = load_model(open_device(), model_path, format);
  Session session(*model, 512, {2});
  session.set_sampling(greedy());
  session.prompt({expected.data(), 1});
  std::vector<uint32_t> got = {expected[0]};
  session.generate(200, false, [&](uint32_t id) {
    got.push_back(id);
    return true;
  });
  const size_t same = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first - got.begin();
  EXPECT_GE(same, std::min(least, expected.size()));
  if (least > expected.size()) {
    EXPECT_EQ(got.size(), expected.size());
  }
}

TEST_F(SessionTest, RealModelsGoOnAsKnown) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no ../shared with models here";
  const auto tinystories = *shared / "models" / "tinystories-656K", stories = *shared / "models" / "stories260K";
  const auto gguf = stories / "tinyllamas-stories-260k-f32.gguf";
  check_real(tinystories, tinystories, Format::f16, 1000);
  check_real(stories, gguf, Format::f16, 1000);
  check_real(tinystories, tinystories, Format::q8, 40);
  check_real(stories, gguf, Format::q8, 40);
  // Both files store or name the shared matrix in a way of their own; both share it.
  EXPECT_TRUE(load_model(open_device(), tinystories, Format::f16)->weights.tied());
  EXPECT_TRUE(load_model(open_device(), gguf, Format::f16)->weights.tied());
}

}  // namespace
}  // namespace weft::test
