// weft_model_load_fd: a GGUF file inside another file.
#include "weft/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
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
    std::ifstream in(folder_ / "m.gguf", std::ios::binary);
    model_.assign(std::istreambuf_iterator<char>(in), {});
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
  std::vector<uint32_t> generate(weft_model* model) {
    weft_session* session = nullptr;
    EXPECT_EQ(weft_session_create(model, nullptr, &session, nullptr), WEFT_OK);
    const std::vector<uint32_t> prompt = {1, 2, 3, 300};
    weft_sampling sampling = weft_sampling_default();
    sampling.temperature = 0;
    EXPECT_EQ(weft_session_set_sampling(session, &sampling, nullptr), WEFT_OK);
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), nullptr), WEFT_OK);
    const weft_generate_options options = {12, 1, nullptr, nullptr};
    EXPECT_EQ(weft_session_generate(session, &options, nullptr, nullptr), WEFT_OK);
    std::vector<uint32_t> ids(16);
    size_t count = 0;
    EXPECT_EQ(weft_session_get_ids(session, ids.data(), ids.size(), &count, nullptr), WEFT_OK);
    EXPECT_EQ(count, 16u);
    weft_session_free(session);
    return ids;
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

// The same tokens as from the file itself, at offsets that are no multiple of anything, with the descriptor closed and
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

}  // namespace
}  // namespace weft
