// Models by the names that they have in the user's cache.
#include <fstream>

#include "support/capi_test.h"

namespace weft {
namespace {

class NamesTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    cache_ = folder_ / "cache";
    std::filesystem::create_directories(cache_ / "models");
    ASSERT_EQ(weft_set_cache_folder(cache_.c_str(), nullptr), WEFT_OK);
  }
  void TearDown() override {
    weft_set_cache_folder(nullptr, nullptr);
    CapiModelTest::TearDown();
  }
  weft_status load(const std::string& name) {
    weft_model* model = nullptr;
    error_ = {};
    const weft_status status = weft_model_load(name.c_str(), nullptr, &model, &error_);
    weft_model_free(model);
    return status;
  }

  std::filesystem::path cache_;
  weft_error error_ = {};
};

TEST_F(NamesTest, AFileOfTheCache) {
  std::filesystem::copy_file(folder_ / "m.gguf", cache_ / "models/tiny-1.5b.gguf");
  EXPECT_EQ(load("tiny-1.5b"), WEFT_OK) << error_.sentence;
  EXPECT_EQ(load("tiny-1.5"), WEFT_NOT_FOUND);
  EXPECT_EQ(load("./tiny-1.5b"), WEFT_NOT_FOUND) << "a path is no name";
  EXPECT_EQ(load("tiny-1.5b.gguf"), WEFT_NOT_FOUND) << "nor is a file's name";
  EXPECT_EQ(load("../models/tiny-1.5b"), WEFT_NOT_FOUND);
  EXPECT_EQ(load(".."), WEFT_NOT_FOUND) << "a folder that is there";
  EXPECT_STREQ(error_.place, "..");
}

TEST_F(NamesTest, AFolderOfTheCache) {
  std::filesystem::create_directories(cache_ / "models/parts");
  std::filesystem::copy_file(folder_ / "m.gguf", cache_ / "models/parts/m-00001-of-00001.gguf");
  std::ofstream(cache_ / "models/parts/z.gguf") << "not this one";
  EXPECT_EQ(load("parts"), WEFT_OK) << error_.sentence;
  std::ofstream(cache_ / "models/parts/config.json") << "{}";
  EXPECT_NE(load("parts"), WEFT_OK) << "a folder in Hugging Face's format";
  EXPECT_EQ(error_.place, (cache_ / "models/parts").string());
}

TEST_F(NamesTest, WithoutACache) {
  weft_set_cache_folder("", nullptr);
  EXPECT_EQ(load("tiny"), WEFT_NOT_FOUND);
  EXPECT_STREQ(error_.place, "tiny");
  EXPECT_EQ(load(""), WEFT_NOT_FOUND) << "NULL alone is the installed model";
}

}  // namespace
}  // namespace weft
