// A lost device, through the C API: the errors that an application gets, and a text that goes on as it would have.
#include "recover.h"

#include <fcntl.h>

#include <unistd.h>
#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "weft/adapter.h"
#include "weft/batch.h"
#include "weft/descriptor.h"
#include "weft/duty.h"
#include "weft/importance.h"
#include "weft/soft.h"
#include "weft/speculate.h"

namespace weft {
namespace {

// The thread that uploads the layers is joined before its buffers are freed.
TEST_F(RecoverTest, WhileLayersAreLoaded) {
  LlamaShape shape;
  shape.layers = 24;
  make_gguf(file(), shape, {DType::q8_0, 5, ""});
  for (int i = 0; i < 4; ++i) {
    weft_model* model = nullptr;
    ASSERT_EQ(weft_model_load(file().c_str(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
    EXPECT_EQ(weft_model_recover(model, &error_), WEFT_OK) << error_.sentence;
    weft_model_free(model);
  }
}

// A draft on a device of its own: the session goes on without it, and the next answer brings it back.
TEST_F(RecoverTest, ADraftsDevice) {
  weft_model* draft = nullptr;
  ASSERT_EQ(weft_model_load(file().c_str(), nullptr, &draft, &error_), WEFT_OK) << error_.sentence;
  for (weft_model* model : {model_, draft}) ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  // The first passes are the session's own, and it guesses after them.
  Ids want;
  for (const size_t n : {0, 4, 6, 7, 8, 9, 10}) {
    SCOPED_TRACE(n);
    weft_session* const session = make_session();
    set_sampling(session, 0.9f);
    const uint32_t context = 5;  // so that checks are not timed now, but when guesses are tried
    ASSERT_EQ(weft_session_prompt(session, &context, 1, &error_), WEFT_OK) << error_.sentence;
    ASSERT_EQ(test::speculate(session, WEFT_SPECULATE_DRAFT, draft, &error_), WEFT_OK) << error_.sentence;
    lose_device_at(n);
    const Ids ids = answer(session, 12);
    if (n == 0) {
      want = ids;
      EXPECT_GT(test::speculation_stats_of(session).passes, 0u);
    }
    EXPECT_EQ(ids, want);
    EXPECT_EQ(answer(session, 12), want);
    EXPECT_EQ(open_devices(), before_ + 2);
    weft_session_free(session);
    sessions_.pop_back();
  }
  weft_model_free(draft);
}

TEST_F(RecoverTest, WithoutRecoveryItIsAnError) {
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 20);
  lose_device_at(6);
  Ids ids;
  EXPECT_EQ(answer(session, 20, ids), WEFT_DEVICE_LOST);
  ASSERT_LT(ids.size(), 20u);
  // The context has what was generated, and every call that needs the device says the same.
  EXPECT_EQ(test::stats_of(session).context_used, 11 + ids.size());
  EXPECT_EQ(generate(session, 5, ids), WEFT_DEVICE_LOST);
  std::vector<float> logits(test::info_of(model_).vocab_size);
  EXPECT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(generate(session, static_cast<uint32_t>(20 - ids.size()), ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
}

// The device goes between two calls, and is brought back by another session.
TEST_F(RecoverTest, AnIdleSessionGoesOn) {
  weft_session* const idle = make_session();
  const Ids want = answer(idle, 20);
  Ids ids = answer(idle, 8);
  weft_session* const other = make_session();
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  lose_device_at(3);
  EXPECT_EQ(answer(other, 20), want);
  EXPECT_EQ(generate(idle, 12, ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
}

TEST_F(RecoverTest, OtherCallsThanGenerate) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 10);
  const std::string saved = (folder_ / "saved").string();
  std::vector<float> logits(test::info_of(model_).vocab_size), again(logits.size()), nll(want.size() - 1);
  ASSERT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), WEFT_OK);
  for (const size_t n : {1, 2}) {
    lose_device_at(n);
    ASSERT_EQ(weft_session_logits(session, again.data(), again.size(), &error_), WEFT_OK) << error_.sentence;
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(again[i], logits[i], 1e-3);
  }
  lose_device_at(1);
  ASSERT_EQ(weft_session_save(session, saved.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  lose_device_at(1);
  ASSERT_EQ(weft_session_score(session, want.data(), want.size(), nll.data(), &error_), WEFT_OK) << error_.sentence;
  lose_device_at(1);
  ASSERT_EQ(weft_session_restore(session, saved.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(test::stats_of(session).context_used, 21u);
  lose_device_at(0);
  EXPECT_EQ(answer(session, 10), want);
}

TEST_F(RecoverTest, TheDeviceDoesNotComeBack) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  refuse_devices(true);
  lose_device_at(4);
  Ids ids;
  const weft_status status = answer(session, 10, ids);
  EXPECT_NE(status, WEFT_OK);
  EXPECT_NE(error_.sentence[0], 0);
  EXPECT_EQ(generate(session, 1, ids), status);
  EXPECT_NE(weft_model_recover(model_, &error_), WEFT_OK);
  EXPECT_GT(test::info_of(model_).vocab_bytes, 0u);
  refuse_devices(false);
  EXPECT_EQ(answer(session, 10), want);  // later it is there
}

TEST_F(RecoverTest, TheFileHasGone) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  lose_device_at(4);
  Ids ids;
  ASSERT_EQ(answer(session, 10, ids), WEFT_DEVICE_LOST);
  std::filesystem::rename(file(), folder_ / "elsewhere");
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_NOT_FOUND) << error_.sentence;
  EXPECT_EQ(generate(session, 1, ids), WEFT_DEVICE_LOST);
  LlamaShape other;
  other.layers = 3;
  make_gguf(file(), other, {DType::q8_0, 5, ""});
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_BAD_FILE);
  EXPECT_STREQ(error_.sentence, "it is not the model that was loaded");
  std::filesystem::rename(folder_ / "elsewhere", file());
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session, 10), want);
}

// There is a device again, but no room for the weights: until there is room, the model has no device.
TEST_F(RecoverTest, TheWeightsDoNotFitAnyMore) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, &error_), WEFT_OK);
  refuse_memory(true);
  for (const bool automatic : {false, true}) {
    ASSERT_EQ(weft_model_set_recovery(model_, automatic, &error_), WEFT_OK);
    EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OUT_OF_MEMORY) << error_.sentence;
    const weft_status expected = automatic ? WEFT_OUT_OF_MEMORY : WEFT_DEVICE_LOST;
    Ids ids;
    EXPECT_EQ(generate(session, 1, ids), expected);
    std::vector<float> logits(test::info_of(model_).vocab_size);
    EXPECT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), expected);
    EXPECT_EQ(weft_session_save(session, (folder_ / "saved").c_str(), nullptr, &error_), expected);
    const Ids prompt = {1, 2};
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), &error_), expected);
    EXPECT_EQ(test::change_request(
                  session, [](weft_request& request) { request.head = "sure"; }, &error_),
              expected);
    weft_request request = weft_request_default();
    request.head = "sure";
    weft_generate_options asked = test::generate_options(1);
    asked.request = &request;
    EXPECT_EQ(weft_session_generate(session, &asked, nullptr, &error_), expected);
    EXPECT_EQ(test::stats_of(session).kv_bytes, 0u);
    EXPECT_EQ(test::stats_of(session).context_used, 21u);
    EXPECT_EQ(test::info_of(model_).vocab_bytes, 0u);
    EXPECT_EQ(test::info_of(model_).layers, 2u);
    char* json = nullptr;
    EXPECT_EQ(weft_model_describe(model_, &json, &error_), WEFT_DEVICE_LOST);
    weft_session* another = nullptr;
    EXPECT_EQ(weft_session_create(model_, nullptr, &another, &error_), WEFT_DEVICE_LOST);
    weft_encoder* encoder = nullptr;
    EXPECT_NE(weft_encoder_create(model_, &encoder, &error_), WEFT_OK);
    const weft_generate_options options = test::generate_options(1);
    weft_batch_end ended[WEFT_MAX_BATCH];
    size_t count = 0;
    ASSERT_EQ(weft_batch_add(batch, session, &options, &error_), WEFT_OK) << error_.sentence;
    const weft_status stepped = weft_batch_step(batch, ended, &count, &error_);
    EXPECT_TRUE(stepped == WEFT_DEVICE_LOST || (count == 1 && ended[0].error.code == WEFT_DEVICE_LOST)) << stepped;
  }
  refuse_memory(false);
  EXPECT_EQ(answer(session, 10), want);  // the prompt opens the device again
  refuse_memory(true);
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OUT_OF_MEMORY);
  weft_batch_free(batch);  // and all else after it
}

// A submission never ends. After minutes (which this loader leaves out) the device is given up, and nothing of it is
// destroyed: it may still be in use.
TEST_F(RecoverTest, ADeviceThatHangs) {
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 20);
  hang_device_at(6);
  Ids ids;
  EXPECT_EQ(answer(session, 20, ids), WEFT_DEVICE_LOST);
  EXPECT_NE(std::string(error_.sentence).find("has not finished its work in"), std::string::npos) << error_.sentence;
  EXPECT_EQ(generate(session, 5, ids), WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(generate(session, static_cast<uint32_t>(20 - ids.size()), ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  for (const size_t n : {1, 2, 9}) {
    hang_device_at(n);
    EXPECT_EQ(answer(session, 20), want);
    EXPECT_EQ(destroyed_under_way(), 0u);
  }
  hanging_ = 4;
}

// The descriptor is its owner's, who closes it; the file itself may have lost its name.
// A path is that of the folder in which the model was loaded.
TEST_F(RecoverTest, FromAnotherFolder) {
  namespace fs = std::filesystem;
  const fs::path here = fs::current_path(), name = folder_.filename();
  fs::create_directory(folder_ / "deeper");
  fs::create_symlink("../m.gguf", folder_ / "deeper/link.gguf");
  const Ids want = answer(make_session(), 10);
  for (const fs::path& path : {fs::path("m.gguf"), fs::path("./m.gguf"), ".." / name / "m.gguf",
                               fs::path("deeper/../m.gguf"), fs::path("deeper/link.gguf"), file()}) {
    fs::current_path(folder_);
    weft_model* model = nullptr;
    const weft_status loaded = weft_model_load(path.c_str(), nullptr, &model, &error_);
    fs::current_path("/");
    ASSERT_EQ(loaded, WEFT_OK) << path << error_.sentence;
    weft_model_set_recovery(model, 1, nullptr);
    weft_session* session = nullptr;
    ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
    lose_device_at(2);
    Ids ids;
    EXPECT_EQ(answer(session, 10, ids), WEFT_OK) << path << error_.place << error_.sentence;
    EXPECT_EQ(ids, want) << path;
    weft_session_free(session);
    weft_model_free(model);
    lose_device_at(0);
  }
  fs::current_path(here);
}

TEST_F(RecoverTest, AModelOfADescriptor) {
  const Ids want = answer(make_session(), 10);
  const int descriptor = ::open(file().c_str(), O_RDONLY);
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load_fd(descriptor, 0, std::filesystem::file_size(file()), nullptr, &model, &error_), WEFT_OK)
      << error_.sentence;
  ::close(descriptor);
  std::filesystem::remove(file());
  ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  weft_session* session = nullptr;
  ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
  weft_model_free(model);
  lose_device_at(4);
  EXPECT_EQ(answer(session, 10), want);
  weft_session_free(session);
}

// The bytes are the caller's, and still there.
TEST_F(RecoverTest, AModelInMemory) {
  const Ids want = answer(make_session(), 10);
  std::ifstream in(file(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(file());
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load_memory(bytes.data(), bytes.size(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
  ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  weft_session* session = nullptr;
  ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
  weft_model_free(model);
  lose_device_at(4);
  EXPECT_EQ(answer(session, 10), want);
  weft_session_free(session);
}

// Lost while a session is written, and while one is read: what has gone into the descriptor is there once.
TEST_F(RecoverTest, ASessionOfADescriptor) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  answer(session, 10);
  const std::filesystem::path plain = folder_ / "plain", lost = folder_ / "lost";
  ASSERT_EQ(weft_session_save(session, plain.c_str(), nullptr, &error_), WEFT_OK);
  const size_t created = created_devices();
  int descriptor = ::open(lost.c_str(), O_WRONLY | O_CREAT, 0600);
  lose_device_at(2);
  ASSERT_EQ(weft_session_save_fd(session, descriptor, nullptr, &error_), WEFT_OK) << error_.sentence;
  ::close(descriptor);
  EXPECT_EQ(created_devices(), created + 1);
  weft_session* const first = make_session();
  descriptor = ::open(plain.c_str(), O_RDONLY);
  lose_device_at(1);
  ASSERT_EQ(weft_session_restore_fd(first, descriptor, nullptr, &error_), WEFT_OK) << error_.sentence;
  ::close(descriptor);
  EXPECT_EQ(created_devices(), created + 2);
  lose_device_at(0);
  weft_session* const second = make_session();
  ASSERT_EQ(weft_session_restore(second, lost.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  Ids want, got;
  ASSERT_EQ(generate(first, 10, want), WEFT_OK);
  ASSERT_EQ(generate(second, 10, got), WEFT_OK);
  EXPECT_EQ(got, want);
}

// A reader may have a part already, so it is not begun anew; the session goes on.
TEST_F(RecoverTest, ASessionInAPipe) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids want = answer(session, 20);
  weft_session_reset(session);
  ASSERT_EQ(answer(session, 10), Ids(want.begin(), want.begin() + 10));
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  std::thread reader([from = pipe[0]] {
    char part[4096];
    while (::read(from, part, sizeof part) > 0) continue;
  });
  lose_device_at(2);
  EXPECT_EQ(weft_session_save_fd(session, pipe[1], nullptr, &error_), WEFT_DEVICE_LOST);
  EXPECT_EQ(std::string(error_.place).rfind("descriptor ", 0), 0u) << error_.place;
  lose_device_at(1);  // nothing has been written
  EXPECT_EQ(weft_session_save_fd(session, pipe[1], nullptr, &error_), WEFT_OK) << error_.sentence;
  lose_device_at(0);
  ::close(pipe[1]);
  reader.join();
  ::close(pipe[0]);
  Ids more;
  ASSERT_EQ(generate(session, 10, more), WEFT_OK);
  EXPECT_EQ(more, Ids(want.begin() + 10, want.end()));
}

// Both lose the device, and both bring it back; once is enough.
TEST_F(RecoverTest, SessionsOfSeveralThreads) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  std::vector<weft_session*> sessions = {make_session(), make_session(), make_session()};
  const Ids want = answer(sessions[0], 30);
  for (const size_t n : {3, 20, 50}) {
    lose_device_at(n);
    const size_t created = created_devices();
    std::vector<Ids> ids(sessions.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < sessions.size(); ++i)
      threads.emplace_back([&, i] {
        const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
        weft_session_reset(sessions[i]);
        weft_session_prompt(sessions[i], prompt.data(), prompt.size(), nullptr);
        weft_generate_options options = test::generate_options(
            30, 1,
            [](void* user, uint32_t id, const char*, size_t) {
              if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
              return 0;
            },
            &ids[i]);
        weft_error error = {};
        EXPECT_EQ(weft_session_generate(sessions[i], &options, nullptr, &error), WEFT_OK) << error.sentence;
      });
    for (std::thread& thread : threads) thread.join();
    for (const Ids& one : ids) ASSERT_EQ(one, want) << "submission " << n;
    EXPECT_EQ(created_devices(), created + 1);
  }
}

// A recovery takes all sessions for a while. Calls that begin then are no misuse: they wait.
TEST_F(RecoverTest, CallsWaitWhileTheDeviceIsOpenedAgain) {
  weft_session* const session = make_session();
  const Ids prompt = {5, 9, 2};
  std::atomic<bool> done = false;
  std::thread thread([&] {
    weft_error error = {};
    EXPECT_EQ(weft_model_recover(model_, &error), WEFT_OK) << error.sentence;
    done = true;
  });
  while (!done && !HasFailure())
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), &error_), WEFT_OK) << error_.sentence;
  thread.join();
}

// Waits until another thread's recovery has opened the device, which it does before all else.
void wait_for_device(size_t created, const std::atomic<bool>& done) {
  while (!done && created_devices() == created) std::this_thread::yield();
}

// A session that is freed then is idle, though the recovery has taken it. TearDown counts the devices.
TEST_F(RecoverTest, FreedWhileTheDeviceIsOpenedAgain) {
  weft_session* const session = make_session();
  sessions_.pop_back();
  const size_t created = created_devices();
  std::atomic<bool> done = false;
  std::thread thread([&] {
    weft_error error = {};
    EXPECT_EQ(weft_model_recover(model_, &error), WEFT_OK) << error.sentence;
    done = true;
  });
  wait_for_device(created, done);
  weft_session_free(session);
  thread.join();
}

TEST_F(RecoverTest, GettersWaitWhileTheDeviceIsOpenedAgain) {
  weft_session* const session = make_session();
  answer(session, 3);
  make_adapter(folder_ / "lora", LlamaShape(), 2, 1);
  weft_adapter* adapter = nullptr;
  ASSERT_EQ(weft_adapter_load(model_, (folder_ / "lora").c_str(), 1, &adapter, &error_), WEFT_OK) << error_.sentence;
  const size_t created = created_devices();
  std::atomic<bool> done = false;
  std::thread thread([&] {
    weft_error error = {};
    EXPECT_EQ(weft_model_recover(model_, &error), WEFT_OK) << error.sentence;
    done = true;
  });
  wait_for_device(created, done);
  while (!done && !HasFailure()) {
    EXPECT_GT(test::stats_of(session).kv_bytes, 0u);
    EXPECT_EQ(weft_session_computed_tokens(session), 0u);  // after it
    EXPECT_GT(weft_adapter_bytes(adapter), 0u);
  }
  thread.join();
  weft_adapter_free(adapter);
}

// A cancel that came when the device was about to be lost ends the generate after the recovery, and nothing later.
TEST_F(RecoverTest, ACancelBeforeTheDeviceIsLost) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session(WEFT_POLICY_POLITE);
  const Ids want = answer(session, 20);
  ASSERT_EQ(weft_session_set_duty(session, 0.5f, &error_), WEFT_OK) << error_.sentence;
  for (const int at : {1, 8}) {
    SCOPED_TRACE(at);
    const size_t created = created_devices();
    int left = at;
    const auto on_pause = [](void* user, double) {
      if (--*static_cast<int*>(user) != 0) return 0;
      lose_device_at(1);
      return 1;
    };
    ASSERT_EQ(weft_session_set_pause_callback(session, on_pause, &left, &error_), WEFT_OK);
    Ids ids;
    EXPECT_EQ(answer(session, 20, ids), WEFT_OK) << error_.sentence;
    EXPECT_EQ(created_devices(), created + 1);
    ASSERT_LT(ids.size(), 20u);
    EXPECT_EQ(generate(session, static_cast<uint32_t>(20 - ids.size()), ids), WEFT_OK) << error_.sentence;
    EXPECT_EQ(ids, want);
  }
}

// A session that lives long has many pictures, or adapters: of the passes that are recorded for them, the last ones are
// kept.
TEST_F(RecoverTest, ReplacedRecordingsAreFreed) {
  weft_session* const session = make_session();
  make_adapter(folder_ / "lora", LlamaShape(), 2, 1);
  weft_adapter* adapter = nullptr;
  ASSERT_EQ(weft_adapter_load(model_, (folder_ / "lora").c_str(), 1, &adapter, &error_), WEFT_OK) << error_.sentence;
  const auto switch_adapters = [&] {
    for (const weft_adapter* one :
         {static_cast<const weft_adapter*>(adapter), static_cast<const weft_adapter*>(nullptr)}) {
      ASSERT_EQ(weft_session_set_adapter(session, one, &error_), WEFT_OK) << error_.sentence;
      answer(session, 12);
    }
  };
  std::vector<float> row(test::info_of(model_).width);
  const auto change_rows = [&] {
    row[0] += 1;
    const weft_prompt_part part = {nullptr, row.data(), 1};
    ASSERT_EQ(weft_session_prompt_parts(session, &part, 1, &error_), WEFT_OK) << error_.sentence;
    Ids ids;
    ASSERT_EQ(generate(session, 1, ids), WEFT_OK) << error_.sentence;
  };
  const auto growth = [](int times, const auto& change) {
    change();
    change();
    const auto before = static_cast<int64_t>(live_vulkan_objects());
    for (int i = 0; i < times; ++i) change();
    return static_cast<int64_t>(live_vulkan_objects()) - before;
  };
  EXPECT_LE(growth(20, switch_adapters), 0);
  EXPECT_LE(growth(300, change_rows), 0);
  ASSERT_EQ(test::speculate(session, WEFT_SPECULATE_LOOKUP, nullptr, &error_), WEFT_OK) << error_.sentence;
  EXPECT_LE(growth(40, switch_adapters), 8);  // which checks are recorded depends on the time that they take
  weft_adapter_free(adapter);
}

TEST_F(RecoverTest, ABatchIsEmptyAndItsSessionsGoOn) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 20);
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, &error_), WEFT_OK);
  const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
  weft_session* members[2];
  ASSERT_EQ(weft_session_create_group(model_, nullptr, members, 2, &error_), WEFT_OK) << error_.sentence;
  sessions_.insert(sessions_.end(), members, members + 2);
  Ids ids[2];
  const auto add = [&] {
    for (size_t i = 0; i < 2; ++i) {
      weft_generate_options options = test::generate_options(
          static_cast<uint32_t>(20 - ids[i].size()), 1,
          [](void* user, uint32_t id, const char*, size_t) {
            if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
            return 0;
          },
          &ids[i]);
      ASSERT_EQ(weft_batch_add(batch, members[i], &options, &error_), WEFT_OK) << error_.sentence;
    }
  };
  for (weft_session* member : members)
    ASSERT_EQ(weft_session_prompt(member, prompt.data(), prompt.size(), &error_), WEFT_OK);
  add();
  lose_device_at(9);
  weft_batch_end ended[WEFT_MAX_BATCH];
  size_t count = 0;
  weft_status status = WEFT_OK;
  while ((status = weft_batch_step(batch, ended, &count, &error_)) == WEFT_OK) ASSERT_EQ(count, 0u);
  EXPECT_EQ(status, WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  add();
  for (size_t left = 2; left > 0; left -= count)
    ASSERT_EQ(weft_batch_step(batch, ended, &count, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids[0], want);
  EXPECT_EQ(ids[1], want);
  weft_batch_free(batch);
}

TEST_F(RecoverTest, NotWhileASessionIsInUse) {
  weft_session* const session = make_session();
  ASSERT_EQ(answer(session, 3).size(), 3u);
  EXPECT_EQ(weft_model_recover(nullptr, &error_), WEFT_INVALID_ARGUMENT);
  struct Told {
    weft_model* model;
    weft_status status = WEFT_OK;
  } told = {model_};
  weft_generate_options options = test::generate_options(
      1, 1,
      [](void* user, uint32_t, const char*, size_t) {
        auto& to = *static_cast<Told*>(user);
        to.status = weft_model_recover(to.model, nullptr);
        return 0;
      },
      &told);
  EXPECT_EQ(weft_session_generate(session, &options, nullptr, &error_), WEFT_OK);
  EXPECT_EQ(told.status, WEFT_INVALID_ARGUMENT);
  // Nor in work with the weights beside the sessions.
  weft_importance_options measured = weft_importance_options_default();
  told.status = WEFT_OK;
  measured.user = &told;
  measured.progress = [](void* user, float) {
    auto& to = *static_cast<Told*>(user);
    to.status = weft_model_recover(to.model, nullptr);
    return 0;
  };
  EXPECT_EQ(
      weft_measure_importance(model_, "a text to measure", &measured, (folder_ / "i.gguf").c_str(), nullptr, &error_),
      WEFT_OK)
      << error_.sentence;
  EXPECT_EQ(told.status, WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
}

}  // namespace
}  // namespace weft
