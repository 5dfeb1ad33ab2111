// The C++ wrappers of the C API: what they return, what they throw, and who keeps what alive.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>
#include <weft/batch.hpp>
#include <weft/probe.hpp>
#include <weft/weft.hpp>

#include "support/source_folder.h"

namespace weft::api {
namespace {

using Ids = std::vector<uint32_t>;

class CppTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    set_cache_folder("");
    if (probe().report.device != WEFT_OK) GTEST_SKIP() << "there is no device";
    model_.emplace(file());
  }
  void TearDown() override {
    model_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  static std::string file() { return (source_folder() / "apps/pocket/pocket.gguf").string(); }
  Session session() const {
    Session made(*model_);
    weft_sampling greedy = weft_sampling_default();
    greedy.temperature = 0;
    made.set_sampling(greedy);
    return made;
  }
  Ids question() const { return model_->apply_chat_template({{"user", "set a timer for 10 minutes"}}); }
  static Ids answer(Session& session) {
    Ids ids;
    session.generate(0, [&](uint32_t id, std::string_view) { return ids.push_back(id), true; });
    return ids;
  }
  Ids answer(const Model& model) const {
    Session made(model);
    weft_sampling greedy = weft_sampling_default();
    greedy.temperature = 0;
    made.set_sampling(greedy);
    made.prompt(question());
    return answer(made);
  }
  Ids wanted() const { return answer(*model_); }

  std::filesystem::path folder_;
  std::optional<Model> model_;
};

struct Mine {};  // is thrown by callbacks

TEST_F(CppTest, ModelsWithoutAPath) {
  std::ifstream in(file(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::ofstream(folder_ / "package", std::ios::binary) << "before" << bytes << "after";
  const int descriptor = ::open((folder_ / "package").c_str(), O_RDONLY);
  const Model inside = Model::from_descriptor(descriptor, 6, bytes.size());
  ::close(descriptor);
  EXPECT_EQ(answer(inside), wanted());
  EXPECT_EQ(answer(Model::from_memory(std::as_bytes(std::span(bytes)))), wanted());
  try {
    Model::from_memory(std::as_bytes(std::span(bytes)).subspan(1));
    ADD_FAILURE() << "it was loaded";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), WEFT_UNSUPPORTED);
    EXPECT_EQ(failure.place(), std::to_string(bytes.size() - 1) + " bytes of memory");
  }
  ModelOptions options;
  options.progress = [](float) -> bool { throw Mine(); };
  EXPECT_THROW(Model::from_memory(std::as_bytes(std::span(bytes)), options), Mine);
}

TEST_F(CppTest, Probing) {
  const Probe found = probe("", 1000, {}, session_options(100));
  EXPECT_EQ(found.report.fit, WEFT_FIT_YES);
  EXPECT_NE(found.json.find("\"context\":100"), std::string::npos) << found.json;
  EXPECT_EQ(probe().report.fit, WEFT_FIT_UNKNOWN);
  EXPECT_EQ(probe(std::nullopt, uint64_t{1} << 60).report.fit, WEFT_FIT_NO);
  EXPECT_EQ(probe("/no/such/model").report.model, WEFT_NOT_FOUND);
  ModelOptions options;
  options.device = "nothing is called this";
  EXPECT_EQ(probe("", 0, options).report.device, WEFT_NO_DEVICE);
  EXPECT_THROW(probe("", 0, {}, session_options(100, static_cast<weft_type>(9))),
               Failure);  // no cache is of this type
}

TEST_F(CppTest, Texts) {
  const Ids ids = question();
  std::string text;
  bool control = false;
  for (const uint32_t id : ids) {
    const Model::TokenBytes token = model_->token_bytes(id);
    if (token.control) {
      control = true;
      EXPECT_FALSE(token.bytes.empty());
      EXPECT_EQ(model_->detokenize({id}), "");
    } else {
      text += token.bytes;
    }
  }
  EXPECT_TRUE(control);
  EXPECT_EQ(text, model_->detokenize(ids));
  EXPECT_NE(text.find("set a timer"), std::string::npos) << text;
  EXPECT_THROW(model_->token_bytes(model_->info().vocab_size), Failure);
  const std::string zeros("a\0b\0\0", 5);
  EXPECT_EQ(model_->detokenize(model_->tokenize(zeros, false)), zeros);
  EXPECT_EQ(
      model_->apply_chat_template_json(R"({"messages":[{"role":"user","content":"set a timer for 10 minutes"}]})"),
      ids);
  EXPECT_THROW(model_->apply_chat_template_json("{"), Failure);
}

TEST_F(CppTest, PartsOfARequest) {
  Session one = session();
  Request request = one.request();
  EXPECT_EQ(request.sampling.temperature, 0);
  one.set_head("certified");
  one.set_logprobs(2);
  EXPECT_EQ(one.request().sampling.temperature, 0);  // a setter changes its part only
  EXPECT_THROW(one.set_head("half"), Failure);
  EXPECT_EQ(one.request().head, "certified");
  one.prompt(question());
  EXPECT_EQ(answer(one), wanted());
  EXPECT_EQ(one.logprobs().likeliest.size(), 2u);

  request.sampling = weft_sampling_default();
  request.grammar_kind = WEFT_GRAMMAR_REGEX;
  request.grammar = "a{5}";
  one.set_request(request);
  EXPECT_EQ(one.request().head, "full");
  one.prompt(question());
  std::string text;
  one.generate(0, [&](uint32_t, std::string_view piece) { return text += piece, true; });
  EXPECT_EQ(text, "aaaaa");
  // A restored session keeps its sampling until another is set.
  const std::string path = (folder_ / "saved").string();
  Session greedy = session();
  greedy.prompt(question());
  greedy.generate(1);
  greedy.save(path);
  one.restore(path);
  one.set_grammar(WEFT_GRAMMAR_NONE);
  EXPECT_TRUE(one.request().keep_sampling);
  EXPECT_EQ(answer(one), answer(greedy));
  one.set_sampling(weft_sampling_default());
  EXPECT_FALSE(one.request().keep_sampling);
  EXPECT_TRUE(one.request().keep_biases);
}

TEST_F(CppTest, ProgressInAPrompt) {
  Session first = session();
  first.prompt(Ids(480, 1000));
  std::vector<std::pair<uint32_t, uint32_t>> told;
  first.set_prompt_callback([&](uint32_t done, uint32_t all) { return told.emplace_back(done, all), done < 100; });
  Session moved = std::move(first);  // takes the callback along
  EXPECT_EQ(moved.generate(3), WEFT_STOP_CALLER);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), std::make_pair(0u, 480u));
  EXPECT_EQ(moved.ids(), Ids(480, 1000));
  moved.set_prompt_callback([](uint32_t, uint32_t) -> bool { throw Mine(); });
  EXPECT_THROW(moved.generate(3), Mine);
  EXPECT_THROW(generate_batch({{moved, 3, {}, false}}), Mine);
  moved.set_prompt_callback({});
  const size_t before = told.size();
  EXPECT_EQ(moved.generate(3, {}, true), WEFT_STOP_LENGTH);
  EXPECT_EQ(told.size(), before);
}

TEST_F(CppTest, ACancelIsForgotten) {
  Session one = session();
  one.prompt(question());
  one.cancel();
  EXPECT_EQ(one.generate(3), WEFT_STOP_CALLER);
  one.cancel();
  one.clear_cancel();
  EXPECT_EQ(answer(one), wanted());
}

TEST_F(CppTest, SavingToADescriptor) {
  const int descriptor = ::open((folder_ / "saved").c_str(), O_RDWR | O_CREAT, 0600);
  Session one = session();
  one.prompt(question());
  Ids ids;
  one.generate(4, [&](uint32_t id, std::string_view) { return ids.push_back(id), true; });
  one.save(descriptor, "a note");
  EXPECT_EQ(::lseek(descriptor, 0, SEEK_SET), 0);
  Session other(*model_);
  EXPECT_EQ(other.restore(descriptor), "a note");
  ::close(descriptor);
  const Ids rest = answer(other);
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_EQ(ids, wanted());
  EXPECT_THROW(other.save(descriptor), Failure);
  EXPECT_THROW(other.restore(-1), Failure);
}

// A session that is answered alone, one that begins later, one whose callback throws, and one that fails.
TEST_F(CppTest, ABatch) {
  Batch batch(*model_);
  Session first = session(), second = session(), throwing = session(), wrong = session();
  Ids ids[2];
  const auto append_to = [](Ids& to) {
    return [&to](uint32_t id, std::string_view) { return to.push_back(id), true; };
  };
  first.prompt(question());
  batch.add(first, 0, append_to(ids[0]));
  EXPECT_THROW(batch.add(first), Failure);  // it is there already, and stays
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_THROW(batch.add(second), Failure);  // it has no prompt
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_TRUE(batch.step().empty());
  second.prompt(question());
  batch.add(second, 0, append_to(ids[1]));
  throwing.prompt(question());
  batch.add(throwing, 0, [](uint32_t, std::string_view) -> bool { throw Mine(); });
  wrong.prompt(question());
  wrong.set_prompt_callback([](uint32_t, uint32_t) -> bool { throw 42; });
  batch.add(wrong);
  EXPECT_EQ(batch.size(), 4u);
  size_t failed = 0;
  for (int steps = 0; batch.size() > 0 && steps < 1000; ++steps)
    for (const BatchEnd& end : batch.step()) {
      const bool fine = &end.session == &first || &end.session == &second;
      EXPECT_EQ(end.failure == nullptr, fine);
      if (fine) {
        EXPECT_EQ(end.stop, WEFT_STOP_TOKEN);
        continue;
      }
      ++failed;
      if (&end.session == &throwing)
        EXPECT_THROW(std::rethrow_exception(end.failure), Mine);
      else
        EXPECT_THROW(std::rethrow_exception(end.failure), int);
    }
  EXPECT_EQ(failed, 2u);
  EXPECT_EQ(batch.size(), 0u);
  EXPECT_EQ(ids[0], wanted());
  EXPECT_EQ(ids[1], wanted());
  second.prompt(question());  // it is free again
  EXPECT_EQ(answer(second), wanted());
}

TEST_F(CppTest, AGroupOfSessions) {
  std::vector<Session> group = make_session_group(*model_, 3);
  ASSERT_EQ(group.size(), 3u);
  Batch batch(*model_);
  std::vector<Ids> ids(3);
  weft_sampling greedy = weft_sampling_default();
  greedy.temperature = 0;
  for (size_t i = 0; i < 3; ++i) {
    group[i].set_sampling(greedy);
    group[i].prompt(question());
    batch.add(group[i], 0, [&to = ids[i]](uint32_t id, std::string_view) { return to.push_back(id), true; });
  }
  for (int steps = 0; batch.size() > 0 && steps < 1000; ++steps) batch.step();
  EXPECT_EQ(ids, std::vector<Ids>(3, wanted()));
  EXPECT_THROW(make_session_group(*model_, 0), Failure);
  EXPECT_THROW(make_session_group(*model_, WEFT_MAX_BATCH + 1), Failure);
}

TEST_F(CppTest, AStepWithinAStepChangesNothing) {
  Batch batch(*model_);
  Session one = session();
  one.prompt(question());
  Ids ids;
  size_t refused = 0;
  batch.add(one, 0, [&](uint32_t id, std::string_view) {
    try {
      batch.step();
    } catch (const Failure& failure) {
      refused += failure.status() == WEFT_INVALID_ARGUMENT ? 1 : 0;
    }
    ids.push_back(id);
    return true;
  });
  for (int steps = 0; batch.size() > 0 && steps < 1000; ++steps) batch.step();
  EXPECT_EQ(ids, wanted());
  EXPECT_EQ(refused, ids.size());
}

TEST_F(CppTest, ABatchThatEndsBeforeItsSessions) {
  Session one = session();
  one.prompt(question());
  {
    Batch batch(*model_);
    batch.add(one);
    EXPECT_THROW(one.set_logprobs(1), Failure);
  }
  EXPECT_EQ(answer(one), wanted());
}

TEST_F(CppTest, ASessionWithAShareOfTheDevice) {
  Session polite(*model_, 0, WEFT_TYPE_FILE, WEFT_POLICY_POLITE), fast = session();
  weft_sampling greedy = weft_sampling_default();
  greedy.temperature = 0;
  polite.set_sampling(greedy);
  polite.set_duty(0.5f);
  polite.prompt(question());
  EXPECT_EQ(answer(polite), wanted());
  EXPECT_THROW(fast.set_duty(0.5f), Failure);
  const Duty duty(0.5f);
  const auto busy_with_an_answer = [&] {
    const double before = duty.busy_seconds();
    fast.prompt(question());
    EXPECT_EQ(answer(fast), wanted());
    return duty.busy_seconds() - before;
  };
  fast.use_duty(duty);
  EXPECT_GT(busy_with_an_answer(), 0);
  fast.use_duty(nullptr);
  EXPECT_EQ(busy_with_an_answer(), 0);
}

TEST_F(CppTest, ACommonPrefixIsCopied) {
  Session first = session(), second = session();
  first.prompt(question());
  answer(first);
  EXPECT_THROW(copy_prefix(second, first), Failure);  // it has no prompt
  second.prompt(question());
  EXPECT_EQ(copy_prefix(second, first), question().size() - 1);
  EXPECT_EQ(answer(second), wanted());
}

}  // namespace
}  // namespace weft::api
