// weft_probe: its figures are those of a load, and a missing device or model is an answer, not an error.
#include "support/capi_options.h"
#include "support/source_folder.h"
#include "weft/probe.h"

#include <gtest/gtest.h>
#include <functional>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/model_maker.h"

namespace weft {
namespace {

using nlohmann::json;

struct Answer {
  weft_probe_report report = {};
  json text;
};

// Sets a variable of the environment, and puts it back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

class ProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", "", 1);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  bool has_device() const { return probe().report.device == WEFT_OK; }
  std::string made(const LlamaShape& shape = {}, const MakeOptions& options = {DType::q8_0, 5, "", {}}) const {
    make_gguf(folder_ / "m.gguf", shape, options);
    return (folder_ / "m.gguf").string();
  }
  Answer probe(const char* path = nullptr, uint64_t bytes = 0, const weft_model_options* options = nullptr,
               const weft_session_options* session = nullptr) const {
    Answer answer;
    weft_error error = {};
    char* text = nullptr;
    EXPECT_EQ(weft_probe(path, bytes, options, session, &answer.report, sizeof answer.report, &text, &error), WEFT_OK)
        << error.sentence;
    if (text) answer.text = json::parse(text);
    weft_string_free(text);
    return answer;
  }

  // The figures are those of a model that is loaded, and of its session.
  void expect_true(const std::string& path, const weft_model_options& options, const weft_session_options& session) {
    const Answer answer = probe(path.c_str(), 0, &options, &session);
    ASSERT_EQ(answer.report.model, WEFT_OK) << answer.text.dump();
    const json& about = answer.text.at("model");
    weft_error error = {};
    weft_model* model = nullptr;
    ASSERT_EQ(weft_model_load(path.c_str(), &options, &model, &error), WEFT_OK) << error.sentence;
    const weft_model_info info = test::info_of(model);
    EXPECT_EQ(about.at("vocab_bytes"), info.vocab_bytes);
    EXPECT_EQ(about.at("layer_bytes"), info.layer_bytes);
    EXPECT_EQ(about.at("streamed_bytes"), info.streamed_bytes);
    EXPECT_EQ(about.at("family"), info.family);
    EXPECT_EQ(answer.text.at("device").at("name"), info.device);
    weft_session* made = nullptr;
    ASSERT_EQ(weft_session_create(model, &session, &made, &error), WEFT_OK) << error.sentence;
    const weft_stats stats = test::stats_of(made);
    EXPECT_EQ(about.at("session_bytes"), stats.kv_bytes + stats.scratch_bytes);
    weft_session_free(made);
    EXPECT_EQ(answer.report.needed_bytes,
              info.vocab_bytes + info.layer_bytes + about.at("session_bytes").get<uint64_t>());
    EXPECT_EQ(answer.text.at("needed_bytes"), answer.report.needed_bytes);
    weft_model_free(model);
  }

  std::filesystem::path folder_;
};

TEST_F(ProbeTest, TheFiguresAreThoseOfALoad) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  const weft_model_options plain = weft_model_options_default();
  weft_session_options session = weft_session_options_default();
  expect_true(made(), plain, session);
  LlamaShape untied;
  untied.tied = false;
  untied.layers = 3;
  weft_model_options q4 = plain;
  q4.type = WEFT_TYPE_Q4;
  session = test::session_options(777, WEFT_TYPE_Q8, WEFT_POLICY_POLITE);
  expect_true(made(untied, {DType::f16, 2, "", {}}), q4, session);
  q4.vocab_type = WEFT_TYPE_F16;
  expect_true(made({}, {DType::q8_0, 5, "", DType::f16}), q4, session);
  weft_model_options native = plain;
  native.vocab_type = WEFT_TYPE_NATIVE;
  expect_true(made({}, {DType::q5_0, 5, ""}), native, session);
  expect_true(made(untied, {DType::q5_0, 5, ""}), native, session);
  expect_true((source_folder() / "apps/pocket/pocket.gguf").string(), plain,
              test::session_options(100, WEFT_TYPE_F16, WEFT_POLICY_POLITE));
}

TEST_F(ProbeTest, AStreamedModel) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  LlamaShape shape;
  shape.layers = 12;
  const std::string path = made(shape);
  const Answer whole = probe(path.c_str());
  weft_model_options options = weft_model_options_default();
  const weft_session_options small = test::session_options(64);
  const json& about = whole.text.at("model");
  const uint64_t weights = about.at("vocab_bytes").get<uint64_t>() + about.at("layer_bytes").get<uint64_t>();
  options.memory_budget = weights;  // more than three quarters
  const Answer streamed = probe(path.c_str(), 0, &options, &small);
  ASSERT_EQ(streamed.report.model, WEFT_OK) << streamed.text.dump();
  EXPECT_GT(streamed.text.at("model").at("streamed_bytes"), 0u);
  EXPECT_LT(streamed.text.at("model").at("layer_bytes"), about.at("layer_bytes"));
  expect_true(path, options, small);
  options.memory_budget = 1000;
  const Answer none = probe(path.c_str(), 0, &options, &small);
  EXPECT_EQ(none.report.model, WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(none.report.fit, WEFT_FIT_NO);
  EXPECT_EQ(none.text.at("fits"), false);
  EXPECT_EQ(none.text.at("model").at("error").at("code"), "WEFT_OUT_OF_MEMORY");
}

TEST_F(ProbeTest, WhetherItFits) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  const Answer nothing = probe();
  EXPECT_EQ(nothing.report.fit, WEFT_FIT_UNKNOWN);
  EXPECT_TRUE(nothing.text.at("fits").is_null());
  EXPECT_FALSE(nothing.text.contains("model"));
  ASSERT_GT(nothing.report.free_bytes, 0u);
  EXPECT_EQ(probe(nullptr, 1).report.fit, WEFT_FIT_YES);
  const Answer much = probe(nullptr, uint64_t{1} << 60);
  EXPECT_EQ(much.report.fit, WEFT_FIT_NO);
  EXPECT_EQ(much.report.needed_bytes, uint64_t{1} << 60);
  const std::string path = made();
  const Answer small = probe(path.c_str());
  EXPECT_EQ(small.report.fit, WEFT_FIT_YES);
  const Answer crowded = probe(path.c_str(), uint64_t{1} << 60);
  EXPECT_EQ(crowded.report.fit, WEFT_FIT_NO);
  EXPECT_EQ(crowded.report.needed_bytes, small.report.needed_bytes + (uint64_t{1} << 60));
  weft_model_options budget = weft_model_options_default();
  budget.memory_budget = small.report.needed_bytes - 1;  // the weights have room, the session has not
  const Answer tight = probe(path.c_str(), 0, &budget);
  ASSERT_EQ(tight.report.model, WEFT_OK);
  EXPECT_EQ(tight.report.fit, WEFT_FIT_NO);
}

TEST_F(ProbeTest, ModelsThatCannotBeRead) {
  const auto expect = [&](const std::string& path, weft_status status) {
    const Answer answer = probe(path.c_str(), 5);
    EXPECT_EQ(answer.report.model, status) << path;
    EXPECT_EQ(answer.report.fit, WEFT_FIT_UNKNOWN);
    EXPECT_EQ(answer.report.needed_bytes, 0u);
    EXPECT_EQ(answer.text.at("model").at("error").at("code"), weft_status_name(status));
    EXPECT_FALSE(answer.text.at("model").at("error").at("sentence").get<std::string>().empty());
    EXPECT_FALSE(answer.text.at("model").contains("family"));
  };
  expect("/nowhere/model.gguf", WEFT_NOT_FOUND);
  expect("/dev/null", WEFT_IO);
  const std::string path = made();
  std::filesystem::resize_file(path, 1000);
  expect(path, WEFT_BAD_FILE);
  std::ofstream(folder_ / "text") << "no model";
  expect((folder_ / "text").string(), WEFT_UNSUPPORTED);
  const weft_session_options session = test::session_options(1 << 20);
  const Answer long_context = probe(made().c_str(), 0, nullptr, &session);
  EXPECT_EQ(long_context.report.model, WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(long_context.text.at("model").at("error").at("place"), "context");
}

// Names are compared as ASCII letters, whatever the locale's lower case of 'I' is: capi_in_tr_TR.
TEST_F(ProbeTest, DevicesByNameInAnyCase) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  const std::string name = probe().text.at("device").at("name");
  const auto cased = [](std::string text, const std::function<bool(size_t)>& is_upper) {
    for (size_t i = 0; i < text.size(); ++i) {
      const bool lower = text[i] >= 'a' && text[i] <= 'z', upper = text[i] >= 'A' && text[i] <= 'Z';
      if (lower || upper) text[i] = static_cast<char>((text[i] & 0x1f) | (is_upper(i) ? 0x40 : 0x60));
    }
    return text;
  };
  using Choice = bool (*)(size_t);
  const Choice all = [](size_t) { return true; }, none = [](size_t) { return false; },
               even = [](size_t i) { return i % 2 == 0; }, odd = [](size_t i) { return i % 2 == 1; };
  weft_model_options options = weft_model_options_default();
  for (const std::string& given : {cased(name, all), cased(name, none), cased(name, even), cased(name, odd),
                                   cased(name.substr(1), all), cased(name.substr(0, name.size() / 2), none)}) {
    options.device = given.c_str();
    EXPECT_EQ(probe(made().c_str(), 0, &options).report.device, WEFT_OK) << given;
  }
  // Several share a vocabulary table, as weft_model_load has them.
  for (const auto& [given, expected] : {std::pair("0:3;0:1", WEFT_OK), {"0;0", WEFT_OK}, {"0;none", WEFT_NO_DEVICE}}) {
    options.device = given;
    EXPECT_EQ(probe(made().c_str(), 0, &options).report.device, expected) << given;
  }
}

TEST_F(ProbeTest, SeveralDevicesAreNotTunedTogether) {
  weft_error error = {};
  EXPECT_EQ(weft_tune("0;1", nullptr, nullptr, nullptr, &error), WEFT_UNSUPPORTED);
  EXPECT_STREQ(error.place, "device");
}

TEST_F(ProbeTest, DevicesThatAreNotThere) {
  weft_model_options options = weft_model_options_default();
  options.device = "no such device";
  const std::string path = made();
  const Answer answer = probe(path.c_str(), 0, &options);
  EXPECT_EQ(answer.report.device, WEFT_NO_DEVICE);
  EXPECT_EQ(answer.report.model, WEFT_OK);  // the file is fine
  EXPECT_EQ(answer.report.fit, WEFT_FIT_UNKNOWN);
  EXPECT_EQ(answer.report.free_bytes, 0u);
  EXPECT_FALSE(answer.text.contains("device"));
  EXPECT_EQ(answer.text.at("error").at("code"), "WEFT_NO_DEVICE");
  EXPECT_EQ(answer.text.at("model").at("family"), "llama");
  EXPECT_FALSE(answer.text.at("model").contains("session_bytes"));
  for (const json& other : answer.text.at("others")) EXPECT_NE(other.at("not_used"), "");
}

// All devices except the used one say why they are not used.
TEST_F(ProbeTest, TheOtherDevices) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  char* text = nullptr;
  ASSERT_EQ(weft_devices(&text, nullptr), WEFT_OK);
  const json devices = json::parse(text);
  weft_string_free(text);
  for (const json& device : devices) {
    weft_model_options options = weft_model_options_default();
    const std::string index = device.at("index").dump();
    options.device = index.c_str();
    const Answer answer = probe(nullptr, 0, &options);
    EXPECT_EQ(answer.text.at("others").size() + answer.text.contains("device"), devices.size());
    if (answer.report.device != WEFT_OK) continue;
    EXPECT_EQ(answer.report.device_index, device.at("index"));
    EXPECT_EQ(answer.text.at("device"), device);
    for (const json& other : answer.text.at("others"))
      EXPECT_EQ(other.at("not_used"),
                other.at("usable") ? json("'" + index + "' selects another device") : other.at("why"));
  }
}

// Features that are switched off: integer dot products that the options want are missing.
TEST_F(ProbeTest, ADeviceThatLacksWhatTheOptionsWant) {
  const Variable disabled("WEFT_DISABLE", "int8_dot");
  if (!has_device()) GTEST_SKIP() << "there is no device";
  weft_model_options options = weft_model_options_default();
  options.int8_inputs = 1;
  const Answer answer = probe(nullptr, 1, &options);
  EXPECT_EQ(answer.report.device, WEFT_UNSUPPORTED);
  EXPECT_EQ(answer.report.fit, WEFT_FIT_UNKNOWN);
  ASSERT_FALSE(answer.text.at("others").empty());
  EXPECT_TRUE(std::ranges::any_of(answer.text.at("others"), [&](const json& other) {
    return other.at("not_used") == answer.text.at("error").at("sentence");
  }));
}

TEST_F(ProbeTest, WrongArguments) {
  weft_probe_report report = {};
  weft_error error = {};
  EXPECT_EQ(weft_probe(nullptr, 0, nullptr, nullptr, nullptr, 0, nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_probe(nullptr, 0, nullptr, nullptr, &report, sizeof report, nullptr, nullptr), WEFT_OK);
  weft_session_options session =
      test::session_options(0, static_cast<weft_type>(9), WEFT_POLICY_THROUGHPUT, WEFT_TYPE_FILE);
  EXPECT_EQ(weft_probe(nullptr, 0, nullptr, &session, &report, sizeof report, nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.place, "kv");
  session = test::session_options(0, WEFT_TYPE_Q4, WEFT_POLICY_THROUGHPUT, static_cast<weft_type>(9));
  EXPECT_EQ(weft_probe(nullptr, 0, nullptr, &session, &report, sizeof report, nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.place, "kv_values");
}

}  // namespace
}  // namespace weft
