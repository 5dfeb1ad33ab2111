// The file that `weft tune` writes: it is used only if it is complete and for this device, driver and kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "gpu/tuning.h"

namespace weft::test {
namespace {

Caps some_caps() {
  Caps caps;
  caps.name = "a card";
  caps.kind = DeviceKind::discrete;
  caps.vendor_id = 0x10de;
  caps.device_id = 0x2330;
  caps.driver_version = 570;
  caps.api_version = 0x401000;
  caps.max_range = 1u << 30;
  caps.max_bindings = 8;
  caps.offset_alignment = 64;
  caps.max_shared = 32768;
  caps.max_threads = 256;
  caps.subgroup_size = 32;
  caps.full_subgroups = caps.fp16 = caps.matrices = true;
  caps.matrix_side = 16;
  caps.max_groups = 65535;
  for (uint8_t i = 0; i < 16; ++i) caps.cache_uuid[i] = i;
  return caps;
}

// The plan with every tunable moved off its default, where there is another.
Plan moved(const Caps& caps) {
  Plan plan = make_plan(caps);
  for (const Tunable& tunable : tunables())
    for (const uint32_t value : tunable.candidates(caps, make_plan(caps)))
      if (value != make_plan(caps).*tunable.field) plan.*tunable.field = value;
  return plan;
}

TEST(Tuning, CandidatesHoldTheDefaultAndAreLegal) {
  for (const DeviceKind kind : {DeviceKind::discrete, DeviceKind::integrated, DeviceKind::cpu})
    for (const uint32_t threads : {128u, 256u, 1024u}) {
      Caps caps = some_caps();
      caps.kind = kind;
      caps.max_threads = threads;
      const Plan plan = make_plan(caps);
      for (const Tunable& tunable : tunables()) {
        const std::vector<uint32_t> candidates = tunable.candidates(caps, plan);
        EXPECT_EQ(std::count(candidates.begin(), candidates.end(), plan.*tunable.field), 1) << tunable.name;
        EXPECT_TRUE(std::is_sorted(candidates.begin(), candidates.end())) << tunable.name;
        for (const uint32_t value : candidates) {
          EXPECT_TRUE(value > 0 || tunable.field == &Plan::tile_tokens || tunable.field == &Plan::matrix_side)
              << tunable.name;
          EXPECT_LE(value, tunable.field == &Plan::split            ? threads / 64
                           : tunable.field == &Plan::reduce_threads ? threads
                                                                    : 64)
              << tunable.name;
        }
      }
    }
}

TEST(Tuning, RoundTrip) {
  const Caps caps = some_caps();
  const Plan plan = moved(caps);
  EXPECT_NE(plan.split, make_plan(caps).split);
  EXPECT_EQ(make_plan(caps).matrix_side, 16u);
  EXPECT_EQ(plan.matrix_side, 0u);
  const auto read = read_tuning(write_tuning(caps, plan), caps, make_plan(caps));
  ASSERT_TRUE(read);
  for (const Tunable& tunable : tunables()) EXPECT_EQ((*read).*tunable.field, plan.*tunable.field) << tunable.name;
}

TEST(Tuning, TornDamagedOrLonger) {
  const Caps caps = some_caps();
  const Plan defaults = make_plan(caps);
  std::string text = write_tuning(caps, moved(caps));
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(read_tuning(std::string_view(text).substr(0, length), caps, defaults)) << length;
  EXPECT_FALSE(read_tuning(text + "\n", caps, defaults));
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(read_tuning(text, caps, defaults)) << "bit " << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_TRUE(read_tuning(text, caps, defaults));
}

TEST(Tuning, OfAnotherDeviceOrDriverOrNoCandidate) {
  const Caps caps = some_caps();
  const Plan defaults = make_plan(caps);
  const std::string text = write_tuning(caps, moved(caps));
  Caps other = caps;
  other.driver_version = 571;
  EXPECT_FALSE(read_tuning(text, other, defaults));
  EXPECT_NE(tuning_path(caps), tuning_path(other));
  other = caps;
  other.device_id = 1;
  EXPECT_FALSE(read_tuning(text, other, defaults));
  other = caps;
  other.cache_uuid[15] = 99;
  EXPECT_FALSE(read_tuning(text, other, defaults));
  Plan wild = defaults;
  wild.block_tokens = 1024;  // well written, but nothing a search would have tried
  EXPECT_FALSE(read_tuning(write_tuning(caps, wild), caps, defaults));
}

TEST(Tuning, ATunedPlanSaysWhereItComesFrom) {
  const std::string folder = testing::TempDir() + "weft-tuning";
  std::filesystem::remove_all(folder);
  const char* const before = std::getenv("WEFT_CACHE_DIR");
  const std::string kept = before ? before : "";
  setenv("WEFT_CACHE_DIR", folder.c_str(), 1);
  const Caps caps = some_caps();
  EXPECT_EQ(tuned_plan(caps).source, "");
  const std::string text = write_tuning(caps, moved(caps));
  write_file_atomically(*tuning_path(caps), std::as_bytes(std::span<const char>(text)));
  EXPECT_EQ(tuned_plan(caps).plan.split, moved(caps).split);
  EXPECT_NE(tuned_plan(caps).source.find("as measured"), std::string::npos);
  setenv("WEFT_TUNE", "0", 1);
  EXPECT_EQ(tuned_plan(caps).plan.split, make_plan(caps).split);
  unsetenv("WEFT_TUNE");
  write_file_atomically(*tuning_path(caps), std::as_bytes(std::span<const char>(text).first(20)));
  EXPECT_EQ(tuned_plan(caps).plan.split, make_plan(caps).split);
  EXPECT_NE(tuned_plan(caps).source.find("ignored"), std::string::npos);
  std::filesystem::remove(*tuning_path(caps));
  std::filesystem::create_directory(*tuning_path(caps));  // a folder in the file's place
  EXPECT_NE(tuned_plan(caps).source.find("ignored"), std::string::npos);
  before ? setenv("WEFT_CACHE_DIR", kept.c_str(), 1) : unsetenv("WEFT_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::test
