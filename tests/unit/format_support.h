// Shared code of the format tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/tensor.h"
#include "support/source_folder.h"

namespace weft {

// The text as a file's bytes, in memory of exactly that size so that AddressSanitizer sees an over-read.
class Bytes {
 public:
  explicit Bytes(const std::string& text) : data_(new std::byte[text.size()]), size_(text.size()) {
    std::memcpy(data_.get(), text.data(), text.size());
  }
  operator std::span<const std::byte>() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_;
};

// Runs a function that must fail, and checks the error's code and that "place: sentence (hint)" has every fragment.
inline void expect_error(Code code, const std::vector<std::string>& fragments, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error; expected one with: " << ::testing::PrintToString(fragments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& fragment : fragments) {
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
          << "\"" << fragment << "\" is not in: " << error.what();
    }
  }
}

// A folder that is removed when the test ends.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-format-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make a folder for the test");
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

// A safetensors file: the header's length, the header, the data.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

inline std::vector<float> floats_of(const TensorView& tensor) {
  std::vector<float> values(element_count(tensor.shape));
  to_float(tensor, 0, values);
  return values;
}

// ../shared beside the checkout, or $WEFT_SHARED; empty if it does not exist.
inline std::filesystem::path shared_folder() {
  const char* set = std::getenv("WEFT_SHARED");
  const std::filesystem::path path = set ? std::filesystem::path(set) : source_folder() / ".." / "shared";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace weft
