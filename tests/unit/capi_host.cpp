// A guest in the host's process: its signals, threads that end within a call, forks.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/batch.hpp"
#include "weft/lens.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

class HostTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_ = load();
    session_ = session();
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }
  weft_model* load() const {
    weft_model* model = nullptr;
    weft_error error = {};
    EXPECT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model, &error), WEFT_OK) << error.sentence;
    return model;
  }
  weft_session* session() const {
    weft_session* made = nullptr;
    EXPECT_EQ(weft_session_create(model_, nullptr, &made, nullptr), WEFT_OK);
    EXPECT_EQ(test::set_greedy(made), WEFT_OK);
    prompt(made, 3);
    return made;
  }
  static void prompt(weft_session* session, uint32_t count) {
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < count; ++i) ids.push_back(3 + i * 7 % 500);
    EXPECT_EQ(weft_session_prompt(session, ids.data(), ids.size(), nullptr), WEFT_OK);
  }
  // Resets the session; its next ids are the same each time.
  std::vector<uint32_t> answer() const {
    prompt(session_, 3);
    const weft_generate_options options = test::generate_options(8);
    EXPECT_EQ(weft_session_generate(session_, &options, nullptr, nullptr), WEFT_OK);
    std::vector<uint32_t> ids(64);
    size_t count = 0;
    EXPECT_EQ(weft_session_get_ids(session_, ids.data(), ids.size(), &count, nullptr), WEFT_OK);
    ids.resize(count);
    return ids;
  }

  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
};

// ---- signals ----

// Signals that a thread other than the calling one could take, with the thread's name.
std::vector<std::string> signals_of_other_threads() {
  std::vector<std::string> found;
  DIR* const tasks = ::opendir("/proc/self/task");
  while (const dirent* const task = ::readdir(tasks)) {
    const std::string id = task->d_name;
    if (id[0] == '.' || std::stol(id) == ::syscall(SYS_gettid)) continue;
    std::ifstream status("/proc/self/task/" + id + "/status");
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) name = line.substr(6);
      if (!line.starts_with("SigBlk:")) continue;
      const uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGQUIT, SIGRTMIN})
        if (!(blocked >> (signal - 1) & 1)) found.push_back(name + ": " + ::strsignal(signal));
    }
  }
  ::closedir(tasks);
  return found;
}

TEST_F(HostTest, NoOtherThreadTakesSignals) {
  EXPECT_EQ(signals_of_other_threads(), std::vector<std::string>());  // while layers are loaded
  answer();
  EXPECT_EQ(signals_of_other_threads(), std::vector<std::string>());
  weft_session* const other = session();
  prompt(other, 200);
  const auto look = [](void* user, uint32_t, const char*, size_t) {
    *static_cast<std::vector<std::string>*>(user) = signals_of_other_threads();
    return 0;
  };
  std::vector<std::string> found = {"the callback was not called"};
  const weft_generate_options options = test::generate_options(3, 1, look, &found);
  EXPECT_EQ(weft_session_generate(other, &options, nullptr, nullptr), WEFT_OK);
  EXPECT_EQ(found, std::vector<std::string>());
  weft_session_free(other);
}

// The main thread blocks a signal once the load has returned, and waits for it.
TEST_F(HostTest, ASignalIsTheMainThreads) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGALRM, SIGINT, SIGCHLD}) {
    weft_model* const model = load();
    sigset_t waited, before;
    ::sigemptyset(&waited);
    ::sigaddset(&waited, signal);
    ::pthread_sigmask(SIG_BLOCK, &waited, &before);
    ::kill(::getpid(), signal);
    const timespec limit = {5, 0};
    EXPECT_EQ(::sigtimedwait(&waited, nullptr, &limit), signal);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    weft_model_free(model);
  }
}

TEST_F(HostTest, TheCallersSignalsStayAsTheyWere) {
  sigset_t own, before, after;
  ::sigemptyset(&own);
  ::sigaddset(&own, SIGUSR2);
  ::pthread_sigmask(SIG_SETMASK, &own, &before);
  weft_model* const model = load();
  answer();
  weft_model_free(model);
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  for (int signal = 1; signal < SIGRTMAX; ++signal)
    EXPECT_EQ(::sigismember(&after, signal), signal == SIGUSR2) << signal;
}

// ---- threads that end ----

// Runs work on a thread of its own, which must end by itself: by pthread_exit, or cancelled.
void* ended_by(const std::function<void(pthread_t)>& meanwhile, std::function<void()> work) {
  pthread_t thread;
  const auto run = [](void* user) -> void* {
    (*static_cast<std::function<void()>*>(user))();
    return nullptr;
  };
  EXPECT_EQ(::pthread_create(&thread, nullptr, run, &work), 0);
  meanwhile(thread);
  void* result = nullptr;
  EXPECT_EQ(::pthread_join(thread, &result), 0);
  return result;
}
char g_left;
void expect_leaves(const std::function<void()>& work) {
  EXPECT_EQ(ended_by([](pthread_t) {}, work), &g_left);
}
void leave() { ::pthread_exit(&g_left); }

TEST_F(HostTest, AThreadEndsInACallback) {
  const std::vector<uint32_t> want = answer();
  expect_leaves([&] {
    const auto callback = [](void*, uint32_t, const char*, size_t) { return leave(), 0; };
    const weft_generate_options options = test::generate_options(8, 1, callback, nullptr);
    weft_session_generate(session_, &options, nullptr, nullptr);
  });
  EXPECT_EQ(answer(), want);
  expect_leaves([&] {
    prompt(session_, 300);
    weft_generate_options options = test::generate_options(8);
    options.prompt_callback = [](void*, uint32_t, uint32_t) { return leave(), 0; };
    weft_session_generate(session_, &options, nullptr, nullptr);
  });
  EXPECT_EQ(answer(), want);
  expect_leaves([&] {
    prompt(session_, 5);
    const weft_lens_options options = weft_lens_options_default();
    weft_session_lens(
        session_, &options, [](void*, const weft_lens_row*) { return leave(), 0; }, nullptr, nullptr);
  });
  EXPECT_EQ(answer(), want);
  expect_leaves([&] {
    weft_model_options options = weft_model_options_default();
    options.progress = [](void*, float) { return leave(), 0; };
    weft_model* model = nullptr;
    weft_model_load((folder_ / "m.gguf").c_str(), &options, &model, nullptr);
  });
  EXPECT_EQ(answer(), want);
}

TEST_F(HostTest, AThreadEndsInACallbackOfABatch) {
  const std::vector<uint32_t> want = answer();
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, nullptr), WEFT_OK);
  const auto callback = [](void* user, uint32_t, const char*, size_t) {
    int& left = *static_cast<int*>(user);
    if (left > 0 && --left == 0) leave();
    return 0;
  };
  // The first token comes with the prompt, the second in a shared pass, or with a grammar in one of the session's own.
  for (const bool grammar : {false, true})
    for (const int token : {1, 2}) {
      SCOPED_TRACE(std::string(grammar ? "a grammar" : "no grammar") + ", token " + std::to_string(token));
      const auto change = [&](weft_request& request) {
        if (!grammar) return;
        request.grammar_kind = WEFT_GRAMMAR_REGEX;
        request.grammar = "[a-z]{60}";
      };
      ASSERT_EQ(test::change_request(session_, change), WEFT_OK);
      prompt(session_, 3);
      int left = token;
      const weft_generate_options options = test::generate_options(8, 1, callback, &left);
      ASSERT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_OK);
      weft_batch_end ended[WEFT_MAX_BATCH] = {};
      size_t count = 0;
      const auto run = [&] {
        for (int step = 0; step < 50 && count == 0; ++step) weft_batch_step(batch, ended, &count, nullptr);
      };
      expect_leaves(run);
      EXPECT_EQ(left, 0);
      // The batch has forgotten the session, which may join again.
      ASSERT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_OK);
      run();
      ASSERT_EQ(count, 1u);
      EXPECT_EQ(ended[0].stop, WEFT_STOP_LENGTH);
    }
  weft_batch_free(batch);
  EXPECT_EQ(test::set_greedy(session_), WEFT_OK);
  EXPECT_EQ(answer(), want);
}

TEST_F(HostTest, AThreadEndsInACallbackInCpp) {
  api::Model model((folder_ / "m.gguf").string());
  api::Session session(model);
  session.prompt({3, 4, 5});
  expect_leaves([&] { session.generate(8, [](uint32_t, std::string_view) { return leave(), true; }); });
  expect_leaves([&] {
    session.prompt(std::vector<uint32_t>(300, 3));
    session.set_prompt_callback([](uint32_t, uint32_t) { return leave(), true; });
    session.generate(8);
  });
  session.set_prompt_callback({});
  expect_leaves([&] {
    api::Batch batch(model);
    session.prompt({3, 4, 5});
    batch.add(session, 8, [](uint32_t, std::string_view) { return leave(), true; });
    while (batch.step().empty()) continue;
  });
  session.prompt({3, 4, 5});
  session.generate(8);
}

// pthread_cancel waits until the call has returned.
TEST_F(HostTest, AThreadIsCancelled) {
  const std::vector<uint32_t> want = answer();
  prompt(session_, 3);
  int told = 0;
  const auto cancel = [](pthread_t thread) {
    ::usleep(2000);
    ::pthread_cancel(thread);
  };
  EXPECT_EQ(ended_by(cancel,
                     [&] {
                       const auto count = [](void* user, uint32_t, const char*, size_t) {
                         ::usleep(1000);  // which could be cancelled
                         return ++*static_cast<int*>(user), 0;
                       };
                       const weft_generate_options options = test::generate_options(20, 1, count, &told);
                       weft_session_generate(session_, &options, nullptr, nullptr);
                       for (;;) ::pause();
                     }),
            PTHREAD_CANCELED);
  EXPECT_EQ(told, 20);
  EXPECT_EQ(answer(), want);
}

// ---- forks ----

// Runs a child, which returns whether all is as it should be.
void expect_of_child(const char* what, const std::function<bool()>& child) {
  const pid_t id = ::fork();
  if (id == 0) {
    ::alarm(20);
    ::_exit(child() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(id, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << what << ": " << status;
}

TEST_F(HostTest, AForkedChildUsesNothing) {
  const std::vector<uint32_t> want = answer();
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, nullptr), WEFT_OK);
  const auto refused = [](weft_status status, const weft_error& error) {
    return status != WEFT_OK && std::string(error.sentence).find("forked") != std::string::npos;
  };
  expect_of_child("free", [&] {
    weft_batch_free(batch);
    weft_session_free(session_);
    weft_model_free(model_);
    return true;
  });
  expect_of_child("generate", [&] {
    weft_error error = {};
    const weft_generate_options options = test::generate_options(8);
    return refused(weft_session_generate(session_, &options, nullptr, &error), error);
  });
  expect_of_child("create", [&] {
    weft_error error = {};
    weft_session* made = nullptr;
    return refused(weft_session_create(model_, nullptr, &made, &error), error);
  });
  expect_of_child("save", [&] {
    weft_error error = {};
    return refused(weft_session_save(session_, (folder_ / "s").c_str(), "", &error), error);
  });
  expect_of_child("load", [&] {
    weft_error error = {};
    weft_model* model = nullptr;
    return refused(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model, &error), error);
  });
  expect_of_child("describe", [&] {
    weft_error error = {};
    char* text = nullptr;
    return refused(weft_model_describe(model_, &text, &error), error) && test::info_of(model_).layers == 0;
  });
  weft_batch_free(batch);
  EXPECT_EQ(answer(), want);
}

}  // namespace
}  // namespace weft
