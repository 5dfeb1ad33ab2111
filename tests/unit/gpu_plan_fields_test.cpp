// A plan's fields by name, as WEFT_PLAN sets them.
#include "gpu/plan_fields.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "gpu/tuning.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

Caps some_caps() {
  Caps caps;
  caps.name = "a card";
  caps.kind = DeviceKind::discrete;
  caps.api_version = 0x401000;
  caps.max_range = 1u << 30;
  caps.max_bindings = 8;
  caps.offset_alignment = 64;
  caps.max_shared = 32768;
  caps.max_threads = 1024;
  caps.max_groups = 65535;
  caps.subgroup = caps.shuffle = caps.full_subgroups = caps.fp16 = caps.matrices = caps.timestamps = true;
  caps.subgroup_size = 32;
  caps.matrix_side = 16;
  return caps;
}

// The error of some settings; empty if they are right.
std::string refusal(const Caps& caps, const std::string& settings, Code code) {
  Plan plan = make_plan(caps);
  const Plan before = plan;
  try {
    set_fields(plan, caps, settings, "WEFT_PLAN");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << settings;
    EXPECT_EQ(error.place(), "WEFT_PLAN");
    for (const PlanField& field : plan_fields()) EXPECT_EQ(value_of(plan, field), value_of(before, field)) << settings;
    return error.what();
  }
  return "";
}

TEST(PlanFields, SetsWhatIsNamedAndNothingElse) {
  const Caps caps = some_caps();
  Plan plan = make_plan(caps);
  const Plan before = plan;
  set_fields(plan, caps, " split=2, attend_span = 128 ,subgroup=0,slice_bytes=5000000", "WEFT_PLAN");
  EXPECT_EQ(plan.split, 2u);
  EXPECT_EQ(plan.attend_span, 128u);
  EXPECT_FALSE(plan.subgroup);
  EXPECT_EQ(plan.slice_bytes, 5000000u);
  plan.split = before.split, plan.attend_span = before.attend_span, plan.subgroup = before.subgroup;
  plan.slice_bytes = before.slice_bytes;
  for (const PlanField& field : plan_fields()) EXPECT_EQ(value_of(plan, field), value_of(before, field)) << field.name;
  set_fields(plan, caps, "", "WEFT_PLAN");
  set_fields(plan, caps, "split=4,split=1", "WEFT_PLAN");
  EXPECT_EQ(plan.split, 1u) << "the last one counts";
}

TEST(PlanFields, ADevicesOwnPlanIsAllowed) {
  for (const DeviceKind kind : {DeviceKind::discrete, DeviceKind::integrated, DeviceKind::cpu})
    for (const uint32_t threads : {128u, 256u, 1024u})
      for (const uint32_t subgroup : {4u, 8u, 32u, 64u}) {
        Caps caps = some_caps();
        caps.kind = kind;
        caps.max_threads = threads;
        caps.subgroup_size = subgroup;
        caps.max_texels = 1 << 27;
        const Plan plan = make_plan(caps);
        for (const PlanField& field : plan_fields()) {
          const std::string same = std::string(field.name) + "=" + std::to_string(value_of(plan, field));
          EXPECT_EQ(refusal(caps, same, Code::unsupported), "") << threads << " " << subgroup;
        }
      }
}

TEST(PlanFields, UnknownFieldsAndBadValuesAreErrorsWithTheList) {
  const Caps caps = some_caps();
  for (const char* const unknown : {"splt=4", "=4", "4", ",", "split=4,,", "workarounds=1", "Split=1", "split 4"}) {
    const std::string error = refusal(caps, unknown, Code::invalid_argument);
    for (const PlanField& field : plan_fields()) EXPECT_NE(error.find(field.name), std::string::npos) << unknown;
  }
  for (const char* const bad : {"split", "split=", "split=four", "split=-1", "split=2.5", "split=0x4",
                                "split=4294967300", "subgroup=2", "subgroup=true", "slice_bytes=99999999999999999999"})
    EXPECT_NE(refusal(caps, bad, Code::invalid_argument).find("can be: "), std::string::npos) << bad;
  for (const char* const unfit :
       {"split=0",         "split=3",           "split=32",        "reduce_threads=512", "reduce_threads=100",
        "row_tiles=3",     "texel_products=1",  "attend_span=32",  "attend_span=100",    "block_tokens=0",
        "block_tokens=32", "tile_tokens=8",     "tile_tokens=128", "matrix_side=8",      "int8_inputs=1",
        "chunk_tokens=12", "chunk_tokens=2048", "chunk_tokens=0",  "slice_bytes=0",      "slice_bytes=2000000000",
        "run_ahead=0",     "run_ahead=16"})
    EXPECT_NE(refusal(caps, unfit, Code::unsupported).find("can be: "), std::string::npos) << unfit;
  Caps small = caps;
  small.max_shared = 16384;
  EXPECT_NE(refusal(small, "block_tokens=16", Code::unsupported), "") << "sums that lanes hand over";
  EXPECT_EQ(refusal(small, "block_tokens=16,split=1", Code::unsupported), "") << "fewer lanes hand sums over";
  Caps plain = caps;
  plain.subgroup = plain.fp16 = plain.matrices = plain.timestamps = false;
  for (const char* const missing : {"subgroup=1", "half_tiles=1", "matrix_side=16", "profile_every=1"})
    EXPECT_NE(refusal(plain, missing, Code::unsupported), "") << missing;
}

TEST(PlanFields, WeftPlanComesAfterWhatWasMeasured) {
  const Caps caps = some_caps();
  setenv("WEFT_TUNE", "0", 1);
  setenv("WEFT_PLAN", "split=2", 1);
  EXPECT_EQ(tuned_plan(caps).plan.split, 2u);
  EXPECT_NE(tuned_plan(caps).source.find("WEFT_PLAN=split=2"), std::string::npos);
  setenv("WEFT_PLAN", "spit=2", 1);
  EXPECT_THROW(tuned_plan(caps), Error);
  setenv("WEFT_PLAN", "", 1);
  EXPECT_EQ(tuned_plan(caps).plan.split, make_plan(caps).split);
  unsetenv("WEFT_PLAN");
  unsetenv("WEFT_TUNE");
}

TEST(PlanFields, DocumentationListsAll) {
  std::ifstream file(source_folder() / "docs" / "devices.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const PlanField& field : plan_fields())
    EXPECT_NE(text.find("| `" + std::string(field.name) + "` |"), std::string::npos) << field.name;
}

}  // namespace
}  // namespace weft::test
