// Memory in several heaps, and several devices: a load finds what weft_probe predicts.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/capi_options.h"
#include "support/greedy_answer.h"
#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "support/pretended_devices.h"
#include "weft/probe.h"
#include "weft/recover.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryHeapFlags kLocalHeap = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
constexpr auto kCard = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, kChip = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
               kCpu = VK_PHYSICAL_DEVICE_TYPE_CPU;
constexpr uint64_t kHost = uint64_t{1} << 30;

// A heap of the device's own, and the host's memory.
PretendedDevice device_of(VkPhysicalDeviceType kind, uint64_t bytes) {
  return {kind, {{kLocalHeap, bytes}, {0, kHost}}, {{kLocal, 0}, {kMapped, 1}}};
}

struct Answer {
  weft_probe_report report = {};
  json text;
};

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", "", 1);
    setenv("WEFT_PLAN", "chunk_tokens=64,attend_span=4096", 1);  // what a card plans takes more memory
    LlamaShape shape;
    shape.width = 128;
    shape.ffn = 512;
    shape.layers = 16;
    shape.context = 256;  // a session of the default context is the one below
    make_gguf(file(), shape, {DType::q8_0, 5, "", {}});
    pretend_devices({});
    const Answer usual = probe();
    if (usual.report.device != WEFT_OK) GTEST_SKIP() << "there is no device";
    const json& about = usual.text.at("model");
    weights_ = about.at("vocab_bytes").get<uint64_t>() + about.at("layer_bytes").get<uint64_t>();
    needed_ = usual.report.needed_bytes;
    want_ = answer();
    ASSERT_EQ(want_.size(), 12u) << error_.sentence;
  }
  void TearDown() override {
    pretend_devices({});
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path file() const { return folder_ / "m.gguf"; }

  Answer probe(const weft_model_options* options = nullptr) {
    Answer answer;
    char* text = nullptr;
    EXPECT_EQ(weft_probe(file().c_str(), 0, options, &session_, &answer.report, sizeof answer.report, &text, &error_),
              WEFT_OK);
    if (text) answer.text = json::parse(text);
    weft_string_free(text);
    return answer;
  }
  // Loads the model and answers; empty: error_ has the reason. look: called when everything is loaded.
  template <class Look>
  std::vector<uint32_t> answer(const weft_model_options& options, const Look& look) {
    return greedy_answer(file(), options, session_, {5, 9, 2, 7}, 8, &error_, look);
  }
  std::vector<uint32_t> answer(const weft_model_options& options = weft_model_options_default()) {
    return answer(options, [](const weft_model*) {});
  }
  // Expects that the probe says yes and the model runs, or neither.
  void expect_fit(bool fit, uint64_t free) {
    const Answer told = probe();
    EXPECT_EQ(told.report.fit, fit ? WEFT_FIT_YES : WEFT_FIT_NO);
    EXPECT_EQ(told.report.free_bytes, free);
    EXPECT_EQ(told.report.needed_bytes, needed_);
    if (fit) {
      EXPECT_EQ(answer(), want_) << error_.sentence;
    } else {
      EXPECT_TRUE(answer().empty());
      EXPECT_EQ(error_.code, WEFT_OUT_OF_MEMORY) << error_.sentence;
    }
  }

  std::filesystem::path folder_;
  const weft_session_options session_ = test::session_options(256);
  weft_error error_ = {};
  uint64_t weights_ = 0, needed_ = 0;
  std::vector<uint32_t> want_;
};

TEST_F(MemoryTest, TwoHeapsOfACard) {
  const uint64_t half = needed_ * 6 / 10;
  const auto card = [&](std::vector<PretendedType> types) {
    return PretendedDevice{kCard, {{kLocalHeap, half}, {kLocalHeap, half}, {0, kHost}}, std::move(types)};
  };
  pretend_devices({card({{kLocal, 0}, {kLocal, 1}, {kMapped, 2}})});
  expect_fit(true, 2 * half);
  pretend_devices({card({{kMapped, 2}, {kLocal | kMapped, 1}, {kLocal, 0}})});  // a window for the host
  expect_fit(true, 2 * half);
  // A heap without buffers does not count: its type is forbidden, or not for buffers.
  pretend_devices({card({{kLocal, 0}, {kLocal | VK_MEMORY_PROPERTY_PROTECTED_BIT, 1}, {kMapped, 2}})});
  expect_fit(false, half);
  PretendedDevice narrow = card({{kLocal, 0}, {kLocal, 1}, {kMapped, 2}});
  narrow.allowed = 0b101;
  pretend_devices({narrow});
  expect_fit(false, half);
}

// The vocabulary table is in one piece.
TEST_F(MemoryTest, PiecesAreNotDivided) {
  const uint64_t table = probe().text.at("model").at("vocab_bytes").get<uint64_t>(), part = table * 9 / 10;
  std::vector<PretendedHeap> heaps = {{0, kHost}};
  std::vector<PretendedType> types = {{kMapped, 0}};
  for (uint64_t sum = 0; sum < 2 * needed_; sum += part) {
    types.push_back({kLocal, static_cast<uint32_t>(heaps.size())});
    heaps.push_back({kLocalHeap, part});
    if (heaps.size() == VK_MAX_MEMORY_HEAPS) break;
  }
  const uint64_t all = part * (heaps.size() - 1);
  pretend_devices({{kCard, std::move(heaps), std::move(types)}});
  expect_fit(false, all);
}

// A part of the host's memory that is set aside for the chip, and the rest of it.
TEST_F(MemoryTest, AChipGoesOnInTheHostsMemory) {
  pretend_devices({device_of(kChip, weights_ / 2)});
  expect_fit(true, weights_ / 2 + kHost);
  EXPECT_EQ(answer(weft_model_options_default(),
                   [&](const weft_model* model) {
                     EXPECT_GT(taken_of(0, 1), weights_ / 2);
                     EXPECT_EQ(test::info_of(model).device_bytes, taken_of(0, 0));
                   }),
            want_);
}

TEST_F(MemoryTest, ACardDoesNot) {
  const uint64_t little = weights_ / 2;
  pretend_devices({device_of(kCard, little)});
  expect_fit(false, little);
  const std::string sentence = error_.sentence;
  EXPECT_NE(sentence.find(std::to_string(little)), sentence.npos) << sentence;
  unsigned long long missing = 0, size = 0, free = 0;
  ASSERT_EQ(std::sscanf(sentence.c_str(), "the device has no room for %llu bytes: of its %llu bytes %llu are free",
                        &missing, &size, &free),
            3)
      << sentence;
  EXPECT_LT(free, missing) << sentence;
  EXPECT_EQ(size, little);
  EXPECT_EQ(taken_of(0, 0), 0u);
  // With a budget the layers stay in the host's memory.
  weft_model_options options = weft_model_options_default();
  options.memory_budget = weights_ / 5 * 6;
  pretend_devices({device_of(kCard, options.memory_budget)});
  EXPECT_EQ(probe(&options).report.fit, WEFT_FIT_YES);
  EXPECT_EQ(answer(options), want_) << error_.sentence;
  EXPECT_EQ(answer(), std::vector<uint32_t>());
}

// Drivers of cards allocate more than they have, and move it to the host's memory: the model would run at a fraction of
// its speed and not say so.
TEST_F(MemoryTest, ACardThatAllocatesMoreThanItsBudget) {
  PretendedDevice card = device_of(kCard, needed_ * 2);
  card.overcommits = true;
  for (const double budget : {0.1, 0.3, 0.49}) {  // other programs have the rest
    SCOPED_TRACE(budget);
    card.budget = budget;
    pretend_devices({card});
    expect_fit(false, static_cast<uint64_t>(static_cast<double>(needed_ * 2) * budget));
    unsigned long long missing = 0, size = 0, free = 0;
    ASSERT_EQ(std::sscanf(error_.sentence, "the device has no room for %llu bytes: of its %llu bytes %llu are free",
                          &missing, &size, &free),
              3)
        << error_.sentence;
    EXPECT_LT(free, missing);
    EXPECT_EQ(size, needed_ * 2);
    EXPECT_EQ(taken_of(0, 0), 0u);
  }
  card.budget = 0.6;
  pretend_devices({card});
  expect_fit(true, static_cast<uint64_t>(static_cast<double>(needed_ * 2) * card.budget));
  // The user's choices: layers in the host's memory, or no heed to the budget.
  card.budget = 0.45;
  pretend_devices({card});
  weft_model_options options = weft_model_options_default();
  options.memory_budget = needed_ * 8 / 10;
  EXPECT_EQ(answer(options), want_) << error_.sentence;
  setenv("WEFT_DISABLE", "memory_budget", 1);
  EXPECT_EQ(answer(), want_) << error_.sentence;
  unsetenv("WEFT_DISABLE");
}

// The next heap takes what the first has no budget for.
TEST_F(MemoryTest, TheBudgetOfEachHeap) {
  const uint64_t half = needed_ * 6 / 10;
  PretendedDevice card = {
      kCard, {{kLocalHeap, half}, {kLocalHeap, 4 * half}, {0, kHost}}, {{kLocal, 0}, {kLocal, 1}, {kMapped, 2}}};
  card.overcommits = true;
  card.budget = 0.5;
  pretend_devices({card});
  EXPECT_EQ(answer(weft_model_options_default(),
                   [&](const weft_model*) {
                     EXPECT_GT(taken_of(0, 0), 0u);
                     EXPECT_LE(taken_of(0, 0), half / 2);
                     EXPECT_GT(taken_of(0, 1), 0u);
                   }),
            want_);
}

// Memory of a chip is the host's in any heap: a budget is advice.
TEST_F(MemoryTest, AChipMayTakeMoreThanItsBudget) {
  PretendedDevice chip = device_of(kChip, needed_ * 2);
  chip.overcommits = true;
  chip.budget = 0.1;
  pretend_devices({chip});
  EXPECT_EQ(answer(), want_) << error_.sentence;
}

TEST_F(MemoryTest, ABudgetIsNotMoreThanTheHeap) {
  const uint64_t size = 2 * needed_;
  for (const auto& [budget, free] :
       std::vector<std::pair<double, uint64_t>>{{1.3, size}, {1, size}, {0.75, size / 4 * 3}, {0, size}}) {
    PretendedDevice card = device_of(kCard, size / 4 * 4);
    card.budget = budget;
    pretend_devices({card});
    EXPECT_NEAR(static_cast<double>(probe().report.free_bytes), static_cast<double>(free), 8) << budget;
  }
}

TEST_F(MemoryTest, OfSeveralDevicesTheOneThatItFits) {
  const uint64_t small = needed_ / 2, large = needed_ * 2;
  const auto expect_chosen = [&](std::vector<PretendedDevice> devices, uint32_t index, const char* device = nullptr) {
    pretend_devices(std::move(devices));
    weft_model_options options = weft_model_options_default();
    options.device = device;
    const Answer told = probe(&options);
    EXPECT_EQ(told.report.device, WEFT_OK);
    EXPECT_EQ(told.report.device_index, index);
    const bool fits = told.report.fit == WEFT_FIT_YES;
    uint64_t taken = 0;
    EXPECT_EQ(answer(options, [&](const weft_model*) { taken = taken_of(index, 0); }),
              fits ? want_ : std::vector<uint32_t>());
    EXPECT_EQ(taken > 0, fits);
    return told;
  };
  const Answer told = expect_chosen({device_of(kCard, small), device_of(kCard, large)}, 1);
  EXPECT_EQ(told.text.at("others").at(0).at("not_used"), "what is asked for does not fit in its memory");
  expect_chosen({device_of(kCard, large), device_of(kCard, 2 * large)}, 0);
  expect_chosen({device_of(kCard, small), device_of(kCard, small)}, 0);
  expect_chosen({device_of(kCard, small), device_of(kChip, large)}, 1);
  expect_chosen({device_of(kChip, large), device_of(kCard, large)}, 1);
  expect_chosen({device_of(kCpu, large), device_of(kCard, small)}, 1);  // no CPU where there is a GPU
  expect_chosen({device_of(kCard, small), device_of(kCpu, large), device_of(kCard, large)}, 2);
  expect_chosen({device_of(kCard, small), device_of(kCard, large)}, 0, "0");
  PretendedDevice full = device_of(kCard, large);
  full.budget = 0.2;
  expect_chosen({full, device_of(kCard, large)}, 1);
}

// The weights of the lost device are still there when it is opened again.
TEST_F(MemoryTest, ALostDeviceIsTheSameAgain) {
  pretend_devices({device_of(kCard, needed_ / 2), device_of(kCard, needed_ * 5 / 4), device_of(kCard, needed_ * 2)});
  EXPECT_EQ(answer(weft_model_options_default(),
                   [&](const weft_model* model) {
                     weft_model_set_recovery(const_cast<weft_model*>(model), 1, nullptr);
                     EXPECT_GT(taken_of(1, 0), 0u);
                     lose_device_at(2);
                   }),
            want_)
      << error_.sentence;
  lose_device_at(0);
}

}  // namespace
}  // namespace weft
