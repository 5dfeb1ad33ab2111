// LoRA adapters through the C API, and their C++ face.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <optional>

#include "support/capi_test.h"
#include "weft/adapter.hpp"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;

class CapiAdapterTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_.emplace((folder_ / "m.gguf").string());
    make_adapter(folder_ / "a", LlamaShape(), 2, 1);
    make_adapter(folder_ / "b", LlamaShape(), 3, 2);
    for (uint32_t i = 0; i < 20; ++i) ids_.push_back(3 + i * 7 % 200);
  }
  void TearDown() override {
    model_.reset();
    CapiModelTest::TearDown();
  }
  api::Adapter load(const std::string& name, float scale = 1) const { return {*model_, folder_ / name, scale}; }
  std::vector<float> logits_of(api::Session& session) const {
    session.prompt(ids_);
    return session.logits();
  }

  std::optional<api::Model> model_;
  Ids ids_;
};

TEST_F(CapiAdapterTest, EachSessionHasItsOwn) {
  api::Session plain(*model_), first(*model_), second(*model_);
  const std::vector<float> without = logits_of(plain);
  {
    const api::Adapter a = load("a"), b = load("b");
    EXPECT_GT(a.bytes(), 0u);
    api::set_adapter(first, &a);
    api::set_adapter(second, &b);
  }  // the sessions hold them
  const std::vector<float> with_a = logits_of(first), with_b = logits_of(second);
  EXPECT_NE(with_a, without);
  EXPECT_NE(with_b, without);
  EXPECT_NE(with_a, with_b);
  EXPECT_GT(first.stats().scratch_bytes, plain.stats().scratch_bytes);
  api::set_adapter(first, nullptr);
  EXPECT_EQ(logits_of(first), without);
  EXPECT_EQ(first.stats().scratch_bytes, plain.stats().scratch_bytes);
}

TEST_F(CapiAdapterTest, OutlivesTheModel) {
  std::optional<api::Adapter> adapter(load("a"));
  model_.reset();
  adapter.reset();
}

TEST_F(CapiAdapterTest, SavedSessionsNeedTheirAdapter) {
  const api::Adapter a = load("a"), again = load("a"), half = load("a", 0.5f);
  api::Session session(*model_);
  api::set_adapter(session, &a);
  logits_of(session);
  session.save((folder_ / "s").string());
  const std::vector<float> want = session.logits();
  const auto restored = [&](const api::Adapter* adapter) {
    api::Session other(*model_);
    api::set_adapter(other, adapter);
    other.restore((folder_ / "s").string());
    return other.logits();
  };
  EXPECT_EQ(restored(&again), want);
  for (const api::Adapter* wrong : {static_cast<const api::Adapter*>(nullptr), &half}) try {
      restored(wrong);
      ADD_FAILURE() << "restored";
    } catch (const api::Failure& error) {
      EXPECT_EQ(error.status(), WEFT_UNSUPPORTED);
      EXPECT_NE(error.sentence().find("adapter"), std::string::npos) << error.sentence();
    }
}

TEST_F(CapiAdapterTest, RefusesWhatIsWrong) {
  weft_adapter* adapter = nullptr;
  weft_error error;
  const auto status = [&](const std::string& name, float scale) {
    return weft_adapter_load(model_->get(), (folder_ / name).c_str(), scale, &adapter, &error);
  };
  EXPECT_EQ(status("a", std::numeric_limits<float>::infinity()), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status("none", 1), WEFT_NOT_FOUND);
  EXPECT_EQ(status("m.gguf", 1), WEFT_UNSUPPORTED) << "a model";
  EXPECT_EQ(weft_adapter_load(nullptr, "a", 1, &adapter, &error), WEFT_INVALID_ARGUMENT);
  LlamaShape wider;
  wider.width = 128;
  make_adapter(folder_ / "wide", wider, 2, 1);
  EXPECT_EQ(status("wide", 1), WEFT_BAD_FILE);
  EXPECT_NE(std::string(error.sentence).find("'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'"),
            std::string::npos)
      << error.sentence;
  LlamaShape deeper;
  deeper.layers = 3;
  make_adapter(folder_ / "deep", deeper, 2, 1);
  EXPECT_EQ(status("deep", 1), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(error.sentence).find("model.layers.2.self_attn.q_proj"), std::string::npos) << error.sentence;
  make_adapter(folder_ / "high", LlamaShape(), 1025, 1);
  EXPECT_EQ(status("high", 1), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(error.sentence).find("rank 1025"), std::string::npos) << error.sentence;
  std::ofstream(folder_ / "a/adapter_config.json") << "{\"peft_type\": \"IA3\"}";
  EXPECT_EQ(status("a", 1), WEFT_UNSUPPORTED);
  EXPECT_EQ(adapter, nullptr);

  const api::Model other((folder_ / "m.gguf").string());
  const api::Adapter of_other(other, (folder_ / "b").string());
  api::Session session(*model_);
  EXPECT_EQ(weft_session_set_adapter(session.get(), of_other.get(), &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_set_adapter(nullptr, nullptr, &error), WEFT_INVALID_ARGUMENT);
  weft_adapter_free(nullptr);
  EXPECT_EQ(weft_adapter_bytes(nullptr), 0u);
}

}  // namespace
}  // namespace weft
