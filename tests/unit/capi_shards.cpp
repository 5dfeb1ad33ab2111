// A vocabulary table over several devices, through the C API. The same device may be named twice.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/half.h"
#include "support/capi_test.h"
#include "weft/batch.h"
#include "weft/geometry.h"
#include "weft/soft.h"
#include "weft/speculate.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class CapiShardsTest : public CapiModelTest {
 protected:
  api::Model load(const std::string& device) const {
    api::ModelOptions options;
    options.device = device;
    return api::Model(folder_ / "m.gguf", options);
  }
  static std::vector<uint32_t> answer(const api::Model& model) {
    api::Session session(model);
    weft_sampling sampling = weft_sampling_default();
    sampling.temperature = 0.8f;
    sampling.seed = 3;
    session.set_sampling(sampling);
    session.prompt({5, 9, 511, 2, 300, 7});
    session.generate(40, {}, true);
    return session.ids();
  }
};

TEST_F(CapiShardsTest, TokensAndReport) {
  const std::vector<uint32_t> want = answer(load("0"));
  EXPECT_EQ(want.size(), 46u);
  for (const char* devices : {"0;0", "0:3;0:1", "0:1;0:1;0:2"}) {
    const api::Model model = load(devices);
    EXPECT_EQ(answer(model), want) << devices;
    const nlohmann::json shards = nlohmann::json::parse(model.describe()).at("shards");
    uint32_t next = 0;
    for (const auto& shard : shards) {
      EXPECT_EQ(shard.at("first_row"), next);
      next += shard.at("rows").get<uint32_t>();
      EXPECT_FALSE(shard.at("device").get<std::string>().empty());
      EXPECT_GT(shard.at("bytes"), 0);
    }
    EXPECT_EQ(next, 512u);
    const bool given = std::string(devices) != "0;0";
    for (const auto& shard : shards) EXPECT_GT(shard.at(given ? "share" : "gigabytes_per_second"), 0);
  }
  const auto shares = nlohmann::json::parse(load("0:3;0:1").describe()).at("shards");
  EXPECT_EQ(shares.at(0).at("rows"), 384);
  EXPECT_EQ(shares.at(1).at("rows"), 128);
  EXPECT_FALSE(nlohmann::json::parse(load("0").describe()).contains("shards"));
}

// Rows are called as the file has them, on whatever device they are, and in the first load of a model, which measures
// its states with the rows of a text alone.
TEST_F(CapiShardsTest, ANumberThatIsNoneIsNamedByItsRow) {
  setenv("WEFT_CACHE_DIR", (folder_ / "cache").c_str(), 1);
  const std::filesystem::path path = folder_ / "m.gguf";
  for (const uint32_t row : {0u, 5u, 109u, 300u, 400u, 511u}) {
    make_gguf(path, LlamaShape(), {DType::f16, 5, ""});
    {
      std::vector<float> wanted(64);
      made_row("model.embed_tokens.weight", false, 5, row, wanted);
      std::string halves;
      for (const float value : wanted) {
        const uint16_t half = float_to_half(value);
        halves.append(reinterpret_cast<const char*>(&half), 2);
      }
      std::string bytes = text_of(path);
      const size_t at = bytes.find(halves);
      ASSERT_NE(at, std::string::npos);
      bytes[at + 7 * 2] = 0, bytes[at + 7 * 2 + 1] = 0x7e;  // NaN
      std::ofstream(path, std::ios::binary) << bytes;
    }
    for (const char* devices : {"0", "0:1;0:1", "0:1;0:1;0:3"}) {
      weft_model_options options = weft_model_options_default();
      options.device = devices;
      weft_model* model = nullptr;
      weft_error error = {};
      EXPECT_EQ(weft_model_load(path.c_str(), &options, &model, &error), WEFT_UNSUPPORTED);
      EXPECT_EQ(std::string(error.sentence).find("element (" + std::to_string(row) + ", 7) is "), 0u) << error.sentence;
      weft_model_free(model);
    }
  }
}

TEST_F(CapiShardsTest, TheReportHasTheBytesOfTheTable) {
  const auto described = [&](const char* devices) { return nlohmann::json::parse(load(devices).describe()); };
  const auto reported = [](const nlohmann::json& description) {
    for (const auto& tensor : description.at("tensors"))
      if (tensor.at("name") == "token_embd.weight") return tensor.at("device_bytes").get<uint64_t>();
    return uint64_t{0};
  };
  const nlohmann::json whole = described("0");
  uint64_t buffer_bytes = 0;
  for (const auto& buffer : whole.at("buffers"))
    if (buffer.at("name") == "vocabulary table") buffer_bytes = buffer.at("bytes").get<uint64_t>();
  EXPECT_GT(buffer_bytes, 0u);
  EXPECT_EQ(reported(whole), buffer_bytes);
  EXPECT_EQ(reported(described("0:1;0:1")), buffer_bytes);
}

TEST_F(CapiShardsTest, WrongLists) {
  const auto refused = [&](const char* devices, weft_status status, const std::string& sentence) {
    weft_model_options options = weft_model_options_default();
    options.device = devices;
    weft_model* model = nullptr;
    weft_error error = {};
    EXPECT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), &options, &model, &error), status) << devices;
    EXPECT_NE(std::string(error.sentence).find(sentence), std::string::npos) << devices << ": " << error.sentence;
    EXPECT_STREQ(error.place, "device");
    EXPECT_EQ(model, nullptr);
    weft_model_free(model);
  };
  refused("0;no such device", WEFT_NO_DEVICE, "no Vulkan device is called 'no such device'");
  refused("no such device;0", WEFT_NO_DEVICE, "no Vulkan device is called 'no such device'");
  refused("0;", WEFT_INVALID_ARGUMENT, "one of several devices has no name");
  refused(";0", WEFT_INVALID_ARGUMENT, "one of several devices has no name");
  refused("0;;0", WEFT_INVALID_ARGUMENT, "one of several devices has no name");
  refused("0:1;:1", WEFT_INVALID_ARGUMENT, "one of several devices has no name");
  refused("0:1;0", WEFT_INVALID_ARGUMENT, "some devices have a share and some have none");
  refused("0:0;0:1", WEFT_INVALID_ARGUMENT, "a device's share is above 0");
  refused("0:-1;0:1", WEFT_INVALID_ARGUMENT, "a device's share is above 0");
  refused("0:nan;0:1", WEFT_INVALID_ARGUMENT, "a device's share is above 0");
  refused("0:1;0:1;0:1;0:1;0:1;0:1;0:1;0:1;0:1", WEFT_INVALID_ARGUMENT, "9 devices cannot share");
  refused("0:x;0:1", WEFT_INVALID_ARGUMENT, "some devices have a share and some have none");
}

TEST_F(CapiShardsTest, WhatNeedsAllRowsIsRefused) {
  const api::Model model = load("0:1;0:1");
  api::Session session(model);
  session.prompt({5, 9, 2});
  weft_error error = {};
  const auto refused = [&](weft_status status, const char* place) {
    EXPECT_EQ(status, WEFT_UNSUPPORTED) << place;
    EXPECT_STREQ(error.place, place);
    EXPECT_STREQ(error.sentence, "the vocabulary table is spread over 2 devices");
  };
  const uint32_t ids[] = {5, 9, 2};
  std::vector<float> values(3 * 512);
  refused(test::speculate(session.get(), WEFT_SPECULATE_LOOKUP, nullptr, &error), "guessing ahead");
  EXPECT_EQ(weft_session_score(session.get(), ids, 3, values.data(), &error), WEFT_OK);
  refused(weft_model_rows(model.get(), ids, 3, values.data(), &error), "rows of the table");
  refused(weft_table_rows(model.get(), ids, 3, values.data(), &error), "rows of the table");
  refused(weft_table_states(model.get(), ids, 3, values.data(), &error), "hidden states");
  for (const char* const head : {"certified", "sure", "full"}) session.set_head(head);
  session.generate(3, {}, true);
}

}  // namespace
}  // namespace weft
