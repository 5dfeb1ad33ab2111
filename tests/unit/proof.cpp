// Kernels that a driver's compiler refuses or breaks are replaced, and the answers are the same.
#include <gtest/gtest.h>
#include <weft/probe.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/capi_options.h"
#include "support/faulty_compiler.h"
#include "support/greedy_answer.h"
#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "support/pretended_devices.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

PretendedDevice device_of(VkPhysicalDeviceType kind, uint64_t bytes = uint64_t{1} << 30) {
  return {kind, {{VK_MEMORY_HEAP_DEVICE_LOCAL_BIT, bytes}, {0, uint64_t{1} << 30}}, {{kLocal, 0}, {kMapped, 1}}};
}
PretendedDevice card() { return device_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU); }

void break_shader(const std::string& name, CompilerFault fault) {
  std::ifstream file(std::string(WEFT_SPIRV_DIR) + "/" + name + ".spv", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(bytes.empty()) << name;
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  break_shader(words, fault);
}

class ProofTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    LlamaShape shape;
    shape.width = 128;
    shape.ffn = 256;
    shape.layers = 2;
    shape.context = 256;
    make_gguf(folder_ / "m.gguf", shape, {DType::q8_0, 5, "", {}});
    new_cache();
    pretend_devices({card()});
    if (devices().empty()) GTEST_SKIP() << "there is no device";
  }
  void TearDown() override {
    mend_shaders();
    pretend_devices({});
    for (const char* const variable : {"WEFT_PLAN", "WEFT_PROOF"}) unsetenv(variable);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  // Nothing is known of any device.
  void new_cache() {
    cache_ = folder_ / ("cache" + std::to_string(caches_++));
    setenv("WEFT_CACHE_DIR", cache_.c_str(), 1);
  }

  json devices() {
    char* text = nullptr;
    if (weft_devices(&text, &error_) != WEFT_OK) return json::array();
    json list = json::parse(text);
    weft_string_free(text);
    return list;
  }
  json proof() { return devices().at(0).at("proof"); }
  // The settings that replaced others, with the reason of each.
  std::vector<std::pair<std::string, std::string>> replaced() {
    std::vector<std::pair<std::string, std::string>> list;
    const json all = proof().at("replaced");
    for (const json& one : all) list.emplace_back(one.at("set"), one.at("because"));
    return list;
  }

  // Ids that the model answers; empty: error_ has the reason.
  std::vector<uint32_t> answer() {
    const weft_session_options session = test::session_options(256);
    std::vector<uint32_t> ids(70);
    for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = 3 + i * 7 % 200;
    return greedy_answer(folder_ / "m.gguf", weft_model_options_default(), session, ids, 12, &error_,
                         [](const weft_model*) {});
  }
  // Without a model; gives the report's JSON. Submissions are counted from its begin.
  json probe() {
    lose_device_at(0);
    weft_probe_report report = {};
    char* text = nullptr;
    EXPECT_EQ(weft_probe(nullptr, 0, nullptr, nullptr, &report, sizeof report, &text, &error_), WEFT_OK)
        << error_.sentence;
    const json probe = json::parse(text);
    weft_string_free(text);
    return probe;
  }
  size_t submissions_of_probe() {
    EXPECT_FALSE(probe().contains("error"));
    return submissions();
  }
  std::filesystem::path proof_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(cache_))
      if (entry.path().filename().string().starts_with("proof")) return entry.path();
    return {};
  }

  std::filesystem::path folder_, cache_;
  size_t caches_ = 0;
  weft_error error_ = {};
};

TEST_F(ProofTest, IsMadeOnceAndKept) {
  const json none = json::array();
  EXPECT_EQ(proof(), json({{"state", "not yet"}, {"replaced", none}}));
  const size_t checks = submissions_of_probe();
  EXPECT_GE(checks, 13u);
  EXPECT_EQ(proof(), json({{"state", "passed"}, {"replaced", none}}));
  EXPECT_EQ(submissions_of_probe(), 0u);
  // Another plan is another proof.
  setenv("WEFT_PLAN", "reduce_threads=128", 1);
  EXPECT_EQ(proof().at("state"), "not yet");
  EXPECT_EQ(submissions_of_probe(), checks);
  EXPECT_EQ(submissions_of_probe(), 0u);
  unsetenv("WEFT_PLAN");
  EXPECT_EQ(submissions_of_probe(), 0u);
  // Fields that select no kernel make no other plan.
  setenv("WEFT_PLAN", "run_ahead=2", 1);
  EXPECT_EQ(submissions_of_probe(), 0u);
  unsetenv("WEFT_PLAN");
  new_cache();
  setenv("WEFT_PROOF", "0", 1);
  EXPECT_EQ(proof().at("state"), "not needed");
  EXPECT_EQ(submissions_of_probe(), 0u);
  unsetenv("WEFT_PROOF");
  EXPECT_EQ(submissions_of_probe(), checks);
  // Without a folder it is kept for the process.
  setenv("WEFT_CACHE_DIR", "", 1);
  EXPECT_EQ(proof().at("state"), "not yet");
  EXPECT_EQ(submissions_of_probe(), checks);
  EXPECT_EQ(submissions_of_probe(), 0u);
  EXPECT_EQ(answer().size(), 82u) << error_.sentence;
}

TEST_F(ProofTest, DriversOnACpuNeedNone) {
  pretend_devices({device_of(VK_PHYSICAL_DEVICE_TYPE_CPU)});
  EXPECT_EQ(proof().at("state"), "not needed");
  EXPECT_EQ(answer().size(), 82u) << error_.sentence;
  EXPECT_EQ(proof_file(), "");
}

// Every kernel that has a plainer one; without WEFT_SWEEP one of each fault.
TEST_F(ProofTest, BrokenKernelsAreReplaced) {
  using enum CompilerFault;
  struct Broken {
    const char* shader;
    CompilerFault fault;
    const char* plan;    // with which it is used
    const char* set;     // what replaces it
    const char* reason;  // begin and end
    const char* says;
  };
  constexpr Broken kBroken[] = {
      {"attend_subgroup", adds, "", "subgroup=0", "attention of a prompt, f16: ", " instead of "},
      {"attend_subgroup", loses, "", "subgroup=0", "attention of a prompt, f16: ", "VK_ERROR_DEVICE_LOST"},
      {"norm_subgroup", refuses, "", "subgroup=0", "an RMSNorm: ", "VK_ERROR_UNKNOWN"},
      {"matmul_tiled", no_room, "matrix_side=0", "tile_tokens=0",
       "products of 64 tokens, f16: ", "VK_ERROR_OUT_OF_HOST_MEMORY"},
      {"matmul_matrix", refuses, "matrix_side=8", "matrix_side=0", "products of 64 tokens, f16: ", "VK_ERROR_UNKNOWN"},
      {"matmul_tiled_fp16", adds, "half_tiles=1,matrix_side=0", "half_tiles=0",
       "products of 64 tokens, f16: ", " instead of "},
      {"matmul_tiled_int8", refuses, "int8_inputs=1", "int8_inputs=0",
       "products of 64 tokens, q8: ", "VK_ERROR_UNKNOWN"},
      {"matmul_subgroup", adds, "uniform_parts=1,row_tiles=2", "uniform_parts=0",
       "products of one token, f16: ", " instead of "},
      {"matmul_texel", no_room, "texel_products=1,row_tiles=4", "texel_products=0",
       "products of one token, f16: ", "VK_ERROR_OUT_OF_HOST_MEMORY"},
      {"attend_texel", adds, "texel_products=1,row_tiles=4", "texel_products=0",
       "attention of a prompt, f16: ", " instead of "},
  };
  std::map<std::string, std::vector<uint32_t>> wanted;  // by plan
  for (const Broken& broken : std::span(kBroken).first(std::getenv("WEFT_SWEEP") ? std::size(kBroken) : 4)) {
    SCOPED_TRACE(broken.shader);
    mend_shaders();
    unsetenv("WEFT_PLAN");
    if (*broken.plan) setenv("WEFT_PLAN", broken.plan, 1);
    if (!devices().at(0).at("usable")) continue;  // the driver cannot
    std::vector<uint32_t>& want = wanted[broken.plan];
    if (want.empty()) {
      new_cache();
      want = answer();
      ASSERT_EQ(want.size(), 82u) << error_.sentence;
      EXPECT_EQ(proof().at("state"), "passed");
      EXPECT_TRUE(replaced().empty());
    }
    new_cache();
    break_shader(broken.shader, broken.fault);
    EXPECT_FALSE(probe().contains("error"));
    EXPECT_GT(broken_pipelines(), 0u);
    ASSERT_EQ(replaced().size(), 1u);
    const auto [settings, reason] = replaced().front();
    EXPECT_EQ(settings, broken.set);
    EXPECT_TRUE(reason.starts_with(broken.reason)) << reason;
    EXPECT_NE(reason.find(broken.says), reason.npos) << reason;
    const json value = devices().at(0).at("plan").at(settings.substr(0, settings.find('=')));
    EXPECT_TRUE(value == false || value == 0) << value;
    // A model runs by that plan and does not try the broken kernel again.
    mend_shaders();
    break_shader(broken.shader, broken.fault);
    EXPECT_EQ(answer(), want) << error_.sentence;
    EXPECT_EQ(broken_pipelines(), 0u);
  }
}

// An update of the driver brings a fault: what was proven of the older one is not believed.
TEST_F(ProofTest, ADriversUpdateIsProvenAgain) {
  PretendedDevice device = card();
  device.driver_version = 41;
  pretend_devices({device});
  const std::vector<uint32_t> want = answer();
  EXPECT_EQ(proof().at("state"), "passed");
  device.driver_version = 42;
  pretend_devices({device});
  EXPECT_EQ(proof().at("state"), "not yet");
  break_shader("attend_subgroup", CompilerFault::adds);
  EXPECT_EQ(answer(), want) << error_.sentence;
  ASSERT_EQ(replaced().size(), 1u);
  EXPECT_EQ(replaced()[0].first, "subgroup=0");
}

TEST_F(ProofTest, SeveralFaults) {
  const std::vector<uint32_t> want = answer();
  new_cache();
  break_shader("matmul_tiled", CompilerFault::refuses);
  break_shader("attend_subgroup", CompilerFault::adds);
  EXPECT_EQ(answer(), want) << error_.sentence;
  ASSERT_EQ(replaced().size(), 2u);
  EXPECT_EQ(replaced()[0].first, "tile_tokens=0");
  EXPECT_EQ(replaced()[1].first, "subgroup=0");
}

TEST_F(ProofTest, WithoutARemedyItIsAnError) {
  const std::vector<uint32_t> want = answer();
  constexpr const char* kShaders[] = {"matmul", "rotate"};
  for (const char* const shader : std::span(kShaders).first(std::getenv("WEFT_SWEEP") ? 2 : 1)) {
    SCOPED_TRACE(shader);
    new_cache();
    mend_shaders();
    break_shader(shader, CompilerFault::adds);
    EXPECT_TRUE(answer().empty());
    EXPECT_EQ(error_.code, WEFT_UNSUPPORTED);
    const std::string sentence = error_.sentence;
    EXPECT_TRUE(sentence.starts_with("its driver fails, and no other kernels help: ")) << sentence;
    EXPECT_NE(sentence.find(" instead of "), sentence.npos) << sentence;
    EXPECT_NE(std::string(error_.hint).find("WEFT_PROOF=0"), std::string::npos);
    const json told = probe().at("error");
    EXPECT_EQ(told.at("code"), "WEFT_UNSUPPORTED");
    EXPECT_EQ(told.at("sentence"), sentence);
    EXPECT_EQ(proof().at("state"), "not yet");
  }
  mend_shaders();
  EXPECT_EQ(answer(), want);
}

TEST_F(ProofTest, AProbeProves) {
  break_shader("norm_subgroup", CompilerFault::refuses);
  const json device = probe().at("device");
  EXPECT_EQ(device.at("proof").at("state"), "passed");
  EXPECT_EQ(device.at("proof").at("replaced").at(0).at("set"), "subgroup=0");
  EXPECT_EQ(device.at("plan").at("subgroup"), false);
}

// A file that is torn, or of another driver, is not believed.
TEST_F(ProofTest, DamagedFiles) {
  break_shader("norm_subgroup", CompilerFault::refuses);
  ASSERT_FALSE(probe().contains("error"));
  const std::filesystem::path path = proof_file();
  std::ifstream file(path);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const auto state_with = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    return proof().at("state").get<std::string>();
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_EQ(state_with(whole), "passed");
  for (size_t size = 0; size + 2 < whole.size(); size += 29) EXPECT_EQ(state_with(whole.substr(0, size)), "not yet");
  EXPECT_EQ(state_with(with("subgroup=0\"", "subgroup=7\"")), "not yet");
  EXPECT_EQ(state_with(with("\"subject\":\"", "\"subject\":\"1")), "not yet");
  EXPECT_EQ(state_with(with("\"because\"", "\"becaus\"")), "not yet");
  EXPECT_EQ(state_with("[]"), "not yet");
  EXPECT_EQ(state_with("{\"subject\":1,\"plans\":2}"), "not yet");
  EXPECT_FALSE(probe().contains("error"));  // proven again
  EXPECT_EQ(proof().at("state"), "passed");
  EXPECT_EQ(replaced().size(), 1u);
}

// A device that has no room for the checks is used as it is.
TEST_F(ProofTest, NoRoom) {
  pretend_devices({device_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 100 << 10)});
  EXPECT_TRUE(answer().empty());
  EXPECT_EQ(error_.code, WEFT_OUT_OF_MEMORY) << error_.sentence;
  EXPECT_EQ(std::string(error_.place).find("known answers"), std::string::npos) << error_.place;
  EXPECT_EQ(proof().at("state"), "not yet");
}

}  // namespace
}  // namespace weft
