// Host memory runs out while a model of each file format is loaded, described, tokenized, converted and a session is
// created: an allocation of Weft's fails, alone or with all later ones. Each time the status is WEFT_OUT_OF_MEMORY, or
// the result is the right one, and the same call then succeeds. WEFT_SWEEP=1 tries every allocation, WEFT_SWEEP=7 every
// seventh; without it some of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "support/capi_test.h"
#include "support/failing_new.h"
#include "support/last_point.h"
#include "support/losable_vulkan.h"
#include "support/source_folder.h"
#include "weft/convert.h"
#include "weft/text.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

const char* const kTemplate =
    "{% for m in messages %}<{{ m['role'] }}>{{ m.content | trim }}{% endfor %}{{ tools | tojson if tools }}";

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A step of an application with a model; appends its result to `out` if it succeeds.
using Work = std::function<weft_status(std::string& out)>;

class HostMemoryTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    say_point_in_a_crash();
    shape_.vocab = 300;
  }
  void TearDown() override {
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }

  // Makes the allocations of the work fail one after the other.
  void sweep(const std::string& name, const Work& work) {
    std::string want;
    for (int time = 0; time < 2; ++time) {  // the second has the caches of the first
      want.clear();
      ASSERT_EQ(work(want), WEFT_OK) << name << ": " << error_.sentence;
    }
    const char* const asked = std::getenv("WEFT_SWEEP");
    size_t points = 0, refused = 0, stride = asked ? std::max(1, std::atoi(asked)) : 1;
    const auto objects = live_vulkan_objects();
    for (const auto later : {FailAllocation::Later::succeed, FailAllocation::Later::fail}) {
      for (size_t n = 1;; n += stride) {
        std::snprintf(g_point, sizeof g_point, "%s, allocation %zu%s\n", name.c_str(), n,
                      later == FailAllocation::Later::fail ? " and later ones" : "");
        std::string out;
        weft_status status;
        bool fired;
        {
          const FailAllocation failing(n, later);
          status = work(out);
          fired = failing.failed();
        }
        ASSERT_TRUE(status == WEFT_OK || (fired && status == WEFT_OUT_OF_MEMORY))
            << g_point << weft_status_name(status) << " " << error_.sentence << " " << error_.place;
        if (status != WEFT_OK) out = want;
        refused += status != WEFT_OK;
        ASSERT_EQ(out, want) << g_point;
        out.clear();
        ASSERT_EQ(work(out), WEFT_OK) << g_point << error_.sentence << " " << error_.place;
        ASSERT_EQ(out, want) << g_point;
        ASSERT_EQ(live_vulkan_objects(), objects) << g_point;
        if (!fired) break;
        ++points;
        if (!asked) stride = 1 + n / 32;  // the first ones, and fewer and fewer of the later ones
      }
    }
    std::cout << name << ": " << points << " points, " << refused << " WEFT_OUT_OF_MEMORY" << std::endl;
    EXPECT_GT(refused, 0u);
  }

  weft_status load(const fs::path& path) {
    weft_model* model = nullptr;
    const weft_status status = weft_model_load(path.c_str(), nullptr, &model, &error_);
    weft_model_free(model);
    return status;
  }
  weft_status describe(std::string& out) {
    char* text = nullptr;
    const weft_status status = weft_model_describe(model_, &text, &error_);
    if (status == WEFT_OK) out += nlohmann::json::parse(text)["tensors"].dump();  // not the seconds that it took
    weft_string_free(text);
    return status;
  }
  weft_status tokenize(std::string& out) {
    const std::string text = "some words, and \xc3\xa9 more";
    weft_status status =
        weft_tokenize(model_, text.data(), text.size(), 1, 1, ids_.data(), ids_.size(), &count_, &error_);
    char* words = nullptr;
    if (status == WEFT_OK) status = weft_detokenize(model_, ids_.data(), count_, &words, nullptr, &error_);
    if (status == WEFT_OK) append_ids(out);
    if (status == WEFT_OK) out += words;
    weft_string_free(words);
    return status;
  }
  weft_status apply_template(std::string& out) {
    const weft_message messages[] = {{"user", "a question"}, {"assistant", "an answer"}, {"user", "another"}};
    weft_status status = weft_apply_chat_template(model_, messages, 3, ids_.data(), ids_.size(), &count_, &error_);
    if (status != WEFT_OK) return status;
    append_ids(out);
    const char* const conversation =
        R"({"messages": [{"role": "user", "content": "what time is it in the capital of France?", "more": [1, [2.5]]}],
            "tools": [{"type": "function", "function": {"name": "a_clock", "parameters": {"place": {}}}}]})";
    status = weft_apply_chat_template_json(model_, conversation, ids_.data(), ids_.size(), &count_, &error_);
    if (status == WEFT_OK) append_ids(out);
    return status;
  }
  weft_status create() {
    weft_session_options options = test::session_options(100);
    weft_session* session = nullptr;
    const weft_status status = weft_session_create(model_, &options, &session, &error_);
    weft_session_free(session);
    return status;
  }
  weft_status convert(const fs::path& from, std::string& out) {
    weft_convert_options options = weft_convert_options_default();
    options.replace = 1;
    const fs::path to = folder_ / "converted.gguf";
    char* report = nullptr;
    const weft_status status = weft_convert(from.c_str(), to.c_str(), &options, &report, &error_);
    if (status == WEFT_OK) out += report + std::to_string(std::hash<std::string>()(bytes_of(to)));
    weft_string_free(report);
    return status;
  }

  // All of it, with the model at this path.
  void sweep_all(const std::string& format, const fs::path& path) {
    ASSERT_NO_FATAL_FAILURE(sweep(format + ", load", [&](std::string&) { return load(path); }));
    ASSERT_EQ(weft_model_load(path.c_str(), nullptr, &model_, &error_), WEFT_OK) << error_.sentence;
    ASSERT_NO_FATAL_FAILURE(sweep(format + ", describe", [&](std::string& out) { return describe(out); }));
    ASSERT_NO_FATAL_FAILURE(sweep(format + ", tokenize", [&](std::string& out) { return tokenize(out); }));
    if (test::info_of(model_).has_chat_template) {
      ASSERT_NO_FATAL_FAILURE(sweep(format + ", template", [&](std::string& out) { return apply_template(out); }));
      ASSERT_NO_FATAL_FAILURE(sweep(format + ", session", [&](std::string&) { return create(); }));
      ASSERT_NO_FATAL_FAILURE(sweep(format + ", convert", [&](std::string& out) { return convert(path, out); }));
    }
  }

  void append_ids(std::string& out) const {
    for (size_t i = 0; i < count_; ++i) out += std::to_string(ids_[i]) + " ";
  }

  LlamaShape shape_;
  weft_error error_ = {};
  weft_model* model_ = nullptr;
  std::vector<uint32_t> ids_ = std::vector<uint32_t>(1000);
  size_t count_ = 0;
};

TEST_F(HostMemoryTest, Gguf) {
  make_gguf(folder_ / "m.gguf", shape_, {DType::q8_0, 5, kTemplate});
  sweep_all("GGUF", folder_ / "m.gguf");
}

TEST_F(HostMemoryTest, HuggingFace) {
  make_huggingface(folder_ / "m", shape_, {DType::f16, 5, kTemplate});
  sweep_all("folder", folder_ / "m");
}

// The weights in a file that an index names.
TEST_F(HostMemoryTest, Shards) {
  make_huggingface(folder_ / "m", shape_, {DType::f16, 5, kTemplate});
  fs::rename(folder_ / "m/model.safetensors", folder_ / "m/one.safetensors");
  const std::string bytes = bytes_of(folder_ / "m/one.safetensors");
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  nlohmann::json map;
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  for (const auto& [tensor, entry] : header.items())
    if (tensor != "__metadata__") map[tensor] = "one.safetensors";
  std::ofstream(folder_ / "m/model.safetensors.index.json") << nlohmann::json({{"weight_map", map}});
  sweep_all("shards", folder_ / "m");
}

// A tokenizer of WordPiece.
TEST_F(HostMemoryTest, Encoder) {
  const fs::path from = source_folder() / "tests/model/golden_encoders/bert", to = folder_ / "bert";
  fs::create_directory(to);
  for (const char* name : {"config.json", "model.safetensors"}) fs::copy_file(from / name, to / name);
  std::ofstream(to / "tokenizer.json")
      << R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",)"
      << R"("max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}}})";
  sweep_all("encoder", to);
}

}  // namespace
}  // namespace weft::test
