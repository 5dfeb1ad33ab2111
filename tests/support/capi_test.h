// Shared code of the C API's tests: a folder of their own with a small model. Without a device, tests are skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/capi_options.h"
#include "support/model_maker.h"
#include "weft/weft.h"

namespace weft {

class CapiModelTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", "", 1);
    make_gguf(folder_ / "m.gguf", LlamaShape(), {DType::q8_0, 5, ""});
    // Keeps the driver in memory, so that its leaks are known to be the driver's.
    static weft_model* const kept = [&] {
      weft_model* model = nullptr;
      weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model, nullptr);
      return model;
    }();
    if (!kept) GTEST_SKIP() << "there is no device";
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;  // has m.gguf
};

}  // namespace weft
