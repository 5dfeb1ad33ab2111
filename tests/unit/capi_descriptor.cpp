// Models and sessions without a path: a GGUF file inside another file or in memory, and sessions saved to descriptors.
#include "support/capi_options.h"
#include "weft/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/model_maker.h"

namespace weft {
namespace {

class DescriptorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", "", 1);
    make_gguf(folder_ / "m.gguf", LlamaShape(), {DType::q8_0, 5, "", {}});
    model_ = read("m.gguf");
    ASSERT_GT(model_.size(), 1000u);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  // A file with the model at an offset, and other bytes around it.
  int packed(size_t offset, size_t after = 777) {
    const std::filesystem::path path = folder_ / "package";
    std::ofstream out(path, std::ios::binary);
    out << std::string(offset, 'x') << model_ << std::string(after, 'y');
    out.close();
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  weft_status load(int fd, uint64_t offset, uint64_t length, weft_model** model) {
    error_ = {};
    return weft_model_load_fd(fd, offset, length, nullptr, model, &error_);
  }
  static weft_session* prompted(weft_model* model) {
    weft_session* session = nullptr;
    EXPECT_EQ(weft_session_create(model, nullptr, &session, nullptr), WEFT_OK);
    const std::vector<uint32_t> prompt = {1, 2, 3, 300};
    EXPECT_EQ(test::set_greedy(session), WEFT_OK);
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), nullptr), WEFT_OK);
    return session;
  }
  // The context, after some more tokens.
  static std::vector<uint32_t> go_on(weft_session* session, uint32_t tokens) {
    const weft_generate_options options = test::generate_options(tokens);
    EXPECT_EQ(weft_session_generate(session, &options, nullptr, nullptr), WEFT_OK);
    std::vector<uint32_t> ids(100);
    size_t count = 0;
    EXPECT_EQ(weft_session_get_ids(session, ids.data(), ids.size(), &count, nullptr), WEFT_OK);
    ids.resize(count);
    return ids;
  }
  static std::vector<uint32_t> generate(weft_model* model) {
    weft_session* session = prompted(model);
    std::vector<uint32_t> ids = go_on(session, 12);
    EXPECT_EQ(ids.size(), 16u);
    weft_session_free(session);
    return ids;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void expect_refused(weft_status status, const std::string& place, int fd, uint64_t offset, uint64_t length) {
    weft_model* model = nullptr;
    EXPECT_EQ(load(fd, offset, length, &model), status) << error_.sentence;
    EXPECT_NE(std::string(error_.place).find(place), std::string::npos) << error_.place;
    EXPECT_EQ(model, nullptr);
    weft_model_free(model);
  }

  std::filesystem::path folder_;
  std::string model_;
  weft_error error_ = {};
};

// The same tokens as from the file itself, at odd offsets, with the descriptor closed and
// the file gone as soon as the load returns.
TEST_F(DescriptorTest, AModelInsideAnotherFile) {
  weft_model* plain = nullptr;
  const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &plain, &error_);
  if (status == WEFT_NO_DEVICE) GTEST_SKIP() << error_.sentence;
  ASSERT_EQ(status, WEFT_OK) << error_.sentence;
  const std::vector<uint32_t> want = generate(plain);
  weft_model_free(plain);
  for (const size_t offset : {0, 1, 4096, 4095, 12345}) {
    SCOPED_TRACE(offset);
    const int fd = packed(offset);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::lseek(fd, 17, SEEK_SET), 17);
    weft_model* model = nullptr;
    ASSERT_EQ(load(fd, offset, model_.size(), &model), WEFT_OK) << error_.place << ": " << error_.sentence;
    EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), 17);  // its position is the caller's
    EXPECT_EQ(::close(fd), 0);
    std::filesystem::remove(folder_ / "package");
    EXPECT_EQ(generate(model), want);
    weft_model_free(model);
  }
  const int fd = packed(99, 0);  // length 0: up to the end
  weft_model* model = nullptr;
  ASSERT_EQ(load(fd, 99, 0, &model), WEFT_OK) << error_.sentence;
  ::close(fd);
  EXPECT_EQ(generate(model), want);
  weft_model_free(model);
}

TEST_F(DescriptorTest, WrongRanges) {
  const int fd = packed(100);
  const std::string name = "descriptor " + std::to_string(fd);
  const uint64_t all = 100 + model_.size() + 777;
  expect_refused(WEFT_INVALID_ARGUMENT, name + ", byte 100 to byte " + std::to_string(all + 1), fd, 100, all - 99);
  expect_refused(WEFT_INVALID_ARGUMENT, name, fd, all + 1, 0);
  expect_refused(WEFT_INVALID_ARGUMENT, name, fd, 100, UINT64_MAX);
  expect_refused(WEFT_INVALID_ARGUMENT, name, fd, UINT64_MAX, 2);
  expect_refused(WEFT_UNSUPPORTED, name, fd, 101, 0);  // no GGUF file begins there
  expect_refused(WEFT_UNSUPPORTED, name, fd, all, 0);  // there is nothing
  expect_refused(WEFT_BAD_FILE, name, fd, 100, model_.size() / 2);
  ::close(fd);
}

TEST_F(DescriptorTest, WhatIsNoFile) {
  expect_refused(WEFT_INVALID_ARGUMENT, "descriptor -1", -1, 0, 0);
  const int closed = packed(0);
  ::close(closed);
  expect_refused(WEFT_INVALID_ARGUMENT, "descriptor " + std::to_string(closed), closed, 0, 0);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  expect_refused(WEFT_IO, "descriptor", pipe[0], 0, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
  expect_refused(WEFT_IO, "descriptor", folder, 0, 0);
  ::close(folder);
  const int write_only = ::open((folder_ / "m.gguf").c_str(), O_WRONLY);
  expect_refused(WEFT_IO, "descriptor", write_only, 0, 0);
  ::close(write_only);
  EXPECT_EQ(weft_model_load_fd(0, 0, 0, nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
}

// At any address, and not touched: neither written to (nor given back to the system, which would make zeros of it)
// while the model is there, nor read afterwards, though its layers may still be on their way when it is freed.
TEST_F(DescriptorTest, AModelInMemory) {
  weft_model* plain = nullptr;
  const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &plain, &error_);
  if (status == WEFT_NO_DEVICE) GTEST_SKIP() << error_.sentence;
  ASSERT_EQ(status, WEFT_OK) << error_.sentence;
  const std::vector<uint32_t> want = generate(plain);
  weft_model_free(plain);
  for (const size_t offset : {0, 1, 4095}) {
    SCOPED_TRACE(offset);
    const size_t size = offset + model_.size();
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    char* const bytes = static_cast<char*>(memory) + offset;
    model_.copy(bytes, model_.size());
    weft_model* model = nullptr;
    ASSERT_EQ(weft_model_load_memory(bytes, model_.size(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
    weft_session* session = prompted(model);
    weft_model_free(model);  // the session keeps it
    EXPECT_EQ(go_on(session, 12), want);
    weft_session_free(session);
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), bytes));
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(weft_model_load_memory(bytes, model_.size(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
      weft_model_free(model);
      ASSERT_EQ(::mprotect(memory, size, PROT_NONE), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ASSERT_EQ(::mprotect(memory, size, PROT_READ), 0);
    }
    EXPECT_EQ(::munmap(memory, size), 0);
  }
}

TEST_F(DescriptorTest, MemoryThatIsNoModel) {
  const auto expect = [&](weft_status status, const void* bytes, size_t length) {
    weft_model* model = nullptr;
    EXPECT_EQ(weft_model_load_memory(bytes, length, nullptr, &model, &error_), status) << length;
    EXPECT_EQ(model, nullptr);
  };
  expect(WEFT_INVALID_ARGUMENT, nullptr, 1);
  expect(WEFT_UNSUPPORTED, nullptr, 0);
  expect(WEFT_UNSUPPORTED, "GGU", 3);
  EXPECT_STREQ(error_.place, "3 bytes of memory");
  for (const size_t length : {size_t{4}, size_t{5}, size_t{24}, size_t{1000}, model_.size() - 1})
    expect(WEFT_BAD_FILE, model_.data(), length);
  EXPECT_EQ(weft_model_load_memory(model_.data(), model_.size(), nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
}

class SavedSessionTest : public DescriptorTest {
 protected:
  void SetUp() override {
    DescriptorTest::SetUp();
    const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &loaded_, &error_);
    if (status == WEFT_NO_DEVICE) GTEST_SKIP() << error_.sentence;
    ASSERT_EQ(status, WEFT_OK) << error_.sentence;
    session_ = prompted(loaded_);
    go_on(session_, 5);
    ASSERT_EQ(weft_session_create(loaded_, nullptr, &other_, nullptr), WEFT_OK);
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_session_free(other_);
    weft_model_free(loaded_);
    DescriptorTest::TearDown();
  }
  int opened(const char* name, int flags) const { return ::open((folder_ / name).c_str(), flags | O_CLOEXEC, 0600); }
  std::string restored(int descriptor) {
    char* note = nullptr;
    EXPECT_EQ(weft_session_restore_fd(other_, descriptor, &note, &error_), WEFT_OK)
        << error_.place << ": " << error_.sentence;
    std::string text = note ? note : "";
    weft_string_free(note);
    return text;
  }

  weft_model* loaded_ = nullptr;
  weft_session *session_ = nullptr, *other_ = nullptr;
};

// After an application's own bytes, and over an older and longer file: what follows is cut off.
TEST_F(SavedSessionTest, InAFile) {
  std::ofstream(folder_ / "f") << "mine" << std::string(1 << 20, 'x');
  const int out = opened("f", O_WRONLY);
  ASSERT_EQ(::lseek(out, 4, SEEK_SET), 4);
  ASSERT_EQ(weft_session_save_fd(session_, out, "a note", &error_), WEFT_OK) << error_.sentence;
  ::close(out);
  ASSERT_EQ(weft_session_save(session_, (folder_ / "g").c_str(), "a note", &error_), WEFT_OK);
  EXPECT_TRUE(read("f") == "mine" + read("g"));
  const int in = opened("f", O_RDONLY);
  ASSERT_EQ(::lseek(in, 4, SEEK_SET), 4);
  EXPECT_EQ(restored(in), "a note");
  ::close(in);
  EXPECT_EQ(go_on(other_, 20), go_on(session_, 20));
}

// Smaller than what is saved, so that each side waits for the other; the second one's ends do not block.
TEST_F(SavedSessionTest, ThroughAPipe) {
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | O_NONBLOCK}) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, flags), 0);
    ASSERT_GT(::fcntl(pipe[1], F_SETPIPE_SZ, 4096), 0);
    weft_status saved = WEFT_INTERNAL;
    weft_error error = {};
    std::thread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(flags & O_NONBLOCK ? 50 : 0));
      saved = weft_session_save_fd(session_, pipe[1], nullptr, &error);
      ::close(pipe[1]);
    });
    EXPECT_EQ(restored(pipe[0]), "");
    writer.join();
    EXPECT_EQ(saved, WEFT_OK) << error.sentence;
    ::close(pipe[0]);
  }
  EXPECT_EQ(go_on(other_, 20), go_on(session_, 20));
}

// An error leaves both sessions as they are, and the program alive: SIGPIPE would end it.
TEST_F(SavedSessionTest, WhatCannotBe) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const auto expect = [&](weft_status want, weft_status got) {
    EXPECT_EQ(got, want) << error_.sentence;
    EXPECT_EQ(std::string(error_.place).rfind("descriptor ", 0), 0u) << error_.place;
  };
  expect(WEFT_INVALID_ARGUMENT, weft_session_save_fd(session_, pipe[0], nullptr, &error_));
  expect(WEFT_INVALID_ARGUMENT, weft_session_restore_fd(other_, pipe[1], nullptr, &error_));
  expect(WEFT_INVALID_ARGUMENT, weft_session_save_fd(session_, -1, nullptr, &error_));
  expect(WEFT_INVALID_ARGUMENT, weft_session_restore_fd(other_, -1, nullptr, &error_));
  ::close(pipe[0]);
  expect(WEFT_IO, weft_session_save_fd(session_, pipe[1], nullptr, &error_));
  ::close(pipe[1]);
  sigset_t set;
  ASSERT_EQ(::sigpending(&set), 0);
  EXPECT_EQ(::sigismember(&set, SIGPIPE), 0);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &set), 0);
  EXPECT_EQ(::sigismember(&set, SIGPIPE), 0);
  const int full = ::open("/dev/full", O_WRONLY);
  expect(WEFT_IO, weft_session_save_fd(session_, full, nullptr, &error_));
  ::close(full);
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
  expect(WEFT_IO, weft_session_restore_fd(other_, folder, nullptr, &error_));
  ::close(folder);
  ASSERT_EQ(weft_session_save(session_, (folder_ / "f").c_str(), nullptr, nullptr), WEFT_OK);
  const std::string whole = read("f");
  for (const std::string& wrong :
       {std::string(), whole.substr(0, 10), whole.substr(0, whole.size() - 8), whole + "x"}) {
    std::ofstream(folder_ / "g", std::ios::binary) << wrong;
    const int in = opened("g", O_RDONLY);
    expect(WEFT_BAD_FILE, weft_session_restore_fd(other_, in, nullptr, &error_));
    ::close(in);
  }
  EXPECT_EQ(weft_session_save_fd(other_, 1, nullptr, &error_), WEFT_INVALID_ARGUMENT);  // it has no prompt
  EXPECT_STREQ(error_.place, "save");
  EXPECT_EQ(weft_session_save_fd(nullptr, 1, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_restore_fd(nullptr, 0, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  size_t count = 1;
  EXPECT_EQ(weft_session_get_ids(other_, nullptr, 0, &count, nullptr), WEFT_OK);
  EXPECT_EQ(count, 0u);
}

}  // namespace
}  // namespace weft
