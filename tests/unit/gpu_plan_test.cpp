// The plan is a pure function of a device's capabilities: its decisions for devices that this machine does not have.
#include "gpu/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace weft {
namespace {

constexpr uint32_t version(uint32_t major, uint32_t minor) { return major << 22 | minor << 12; }
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMost = 0xffffffff;

// VkDriverId.
enum : uint32_t {
  kAmd = 1,
  kRadv = 3,
  kNvidia = 4,
  kIntelWindows = 5,
  kAnv = 6,
  kPowerVr = 7,
  kQualcomm = 8,
  kArm = 9,
  kSwiftShader = 10,
  kLlvmpipe = 13,
  kMoltenVk = 14,
  kTurnip = 18,
  kV3dv = 19,
  kPanvk = 20,
  kSamsung = 21,
  kNvk = 24,
  kPowerVrMesa = 25,
};

// Limits as these devices report them. The limits of llvmpipe and SwiftShader were read on this project's machines;
// V3D's are in Mesa's source (broadcom/common/v3d_limits.h) and in vulkaninfo listings of Raspberry Pi 5; the others
// are typical of reports on vulkan.gpuinfo.org, where single drivers differ.
struct Snapshot {
  const char* name;
  uint32_t driver;
  DeviceKind kind;
  uint32_t api;
  uint64_t max_range;
  uint32_t offset_alignment, max_shared, max_threads, subgroup_size;
  bool subgroup;
  uint32_t device = 0;  // its number: of Adreno, the chip and its revision
};
constexpr DeviceKind kPhone = DeviceKind::integrated;
const Snapshot kDevices[] = {
    {"V3D 7.1 (Raspberry Pi 5)", kV3dv, kPhone, version(1, 2), 1024 * kMiB, 32, 16384, 256, 16, false},
    {"Adreno 630", kQualcomm, kPhone, version(1, 1), 128 * kMiB, 64, 32768, 1024, 64, true, 0x06030001},
    {"Adreno 610", kQualcomm, kPhone, version(1, 1), 128 * kMiB, 64, 16384, 1024, 64, true, 0x06010001},
    {"Adreno 740", kQualcomm, kPhone, version(1, 3), 128 * kMiB, 64, 32768, 1024, 64, true, 0x43050a01},
    {"Mali-G71", kArm, kPhone, version(1, 1), 128 * kMiB, 256, 32768, 384, 4, false},
    {"Mali-G78", kArm, kPhone, version(1, 1), 4 * 1024 * kMiB - 1, 16, 32768, 512, 16, false},
    {"Mali-G710", kArm, kPhone, version(1, 3), 4 * 1024 * kMiB - 1, 16, 32768, 1024, 16, true},
    {"PowerVR GE8320", kPowerVr, kPhone, version(1, 1), 128 * kMiB, 64, 16384, 512, 1, false},
    {"Intel UHD 620", kAnv, kPhone, version(1, 3), 1024 * kMiB, 64, 65536, 1024, 32, true},
    {"AMD Radeon RX 6800", kRadv, DeviceKind::discrete, version(1, 3), kMost, 4, 65536, 1024, 64, true},
    {"NVIDIA RTX 3060", kNvidia, DeviceKind::discrete, version(1, 3), kMost, 64, 49152, 1024, 32, true},
    {"Apple M1 (MoltenVK)", kMoltenVk, kPhone, version(1, 2), kMost, 16, 32768, 1024, 32, true},
    {"llvmpipe (LLVM 15.0.6)", kLlvmpipe, DeviceKind::cpu, version(1, 3), 128 * kMiB, 16, 32768, 1024, 8, true},
    {"SwiftShader", kSwiftShader, DeviceKind::cpu, version(1, 3), 1024 * kMiB, 256, 32768, 256, 4, true},
    {"Adreno 660", kQualcomm, kPhone, version(1, 1), 128 * kMiB, 64, 32768, 1024, 64, true, 0x06060001},
    {"Mali-G57", kArm, kPhone, version(1, 1), 128 * kMiB, 256, 32768, 512, 16, false},
    // github.com/ggml-org/llama.cpp/pull/28531 (shared memory); of its driver's listings, Exynos 2400
    {"Xclipse 940", kSamsung, kPhone, version(1, 3), kMost, 64, 32768, 1024, 64, true},
    // The least that Vulkan 1.1 guarantees, but for the storage buffers of a shader (4: rope and advance bind 6).
    {"least", 0, DeviceKind::other, version(1, 1), 128 * kMiB, 256, 16384, 128, 1, false},
};

Caps caps_of(const Snapshot& snapshot) {
  Caps caps;
  caps.name = snapshot.name;
  caps.driver_id = snapshot.driver;
  caps.device_id = snapshot.device;
  caps.kind = snapshot.kind;
  caps.api_version = snapshot.api;
  caps.max_range = snapshot.max_range;
  caps.max_allocation = 1024 * kMiB;
  caps.max_bindings = 8;  // as V3D; everyone else has more
  caps.offset_alignment = snapshot.offset_alignment;
  caps.max_shared = snapshot.max_shared;
  caps.max_threads = snapshot.max_threads;
  caps.max_groups = 65535;
  caps.memory = 1024 * kMiB;
  caps.subgroup = snapshot.subgroup;
  caps.subgroup_size = snapshot.subgroup_size;
  caps.timestamps = true;
  caps.timestamp_period = 1;
  return caps;
}

std::string refusal_of(const Caps& caps) {
  try {
    make_plan(caps);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_EQ(error.place(), caps.name);
    return error.sentence();
  }
  return "";
}

TEST(Plan, KeepsWithinEachDevicesLimits) {
  for (const Snapshot& snapshot : kDevices) {
    SCOPED_TRACE(snapshot.name);
    const Caps caps = caps_of(snapshot);
    const Plan plan = make_plan(caps);
    EXPECT_LE(plan.reduce_threads, caps.max_threads);
    EXPECT_LE(plan.reduce_threads, 256u);
    EXPECT_GE(plan.reduce_threads, 64u);
    EXPECT_GE(plan.split, 1u);
    EXPECT_LE(64 * plan.split, caps.max_threads);
    EXPECT_GE(plan.row_tiles, 1u);
    // Shared memory that the lanes of a split row use (shaders/lib/rows.glsl).
    EXPECT_LE((plan.split - 1) * plan.block_tokens * plan.row_tiles * 64 * 4, caps.max_shared);
    // Shared memory of a tile's block of weights and inputs (shaders/matmul_tiled.comp; workgroups have 128 threads).
    EXPECT_LE((64 + plan.tile_tokens) * 32 * 4, caps.max_shared);
    EXPECT_TRUE(plan.tile_tokens == 0 || plan.tile_tokens >= 16);
    // Shared memory of attention (shaders/attend.comp): queries, a block's weights, sums, the reduction's slots, and a
    // key.
    const uint32_t heads = std::min(4u, plan.block_tokens), threads = std::min(128u, plan.reduce_threads);
    EXPECT_LE(heads * 256 * 4 + heads * 128 * 4 + threads * 2 * 16 + heads * threads * 4 + 256 * 2, caps.max_shared);
    // Sums of products with gates that lanes with 8 rows hand over (shaders/matmul.comp), and of their norms.
    EXPECT_LE((64 * plan.split - 8) * 2 * plan.block_tokens * 4 + 256, caps.max_shared);
    EXPECT_LE(plan.slice_bytes, caps.max_range);
    EXPECT_GE(plan.slice_bytes, 128 * kMiB);
    EXPECT_GE(plan.block_tokens, 1u);
    EXPECT_GE(plan.chunk_tokens, 1u);
    EXPECT_EQ(plan.chunk_tokens % plan.block_tokens, 0u);
    EXPECT_GE(plan.run_ahead, 1u);
    EXPECT_TRUE(!plan.subgroup || caps.subgroup);
    EXPECT_FALSE(plan.half_tiles);
    EXPECT_FALSE(plan.int8_inputs);
  }
}

TEST(Plan, GpusSplitRowsAndSoftwareDoesNot) {
  const std::set<uint32_t> fitted = {kArm, kPowerVr, kV3dv, kNvidia};
  for (const Snapshot& snapshot : kDevices) {
    SCOPED_TRACE(snapshot.name);
    const Caps caps = caps_of(snapshot);
    const Plan plan = make_plan(caps);
    const bool software = snapshot.kind == DeviceKind::cpu;
    EXPECT_EQ(plan.split > 1, !software);
    EXPECT_EQ(plan.tile_tokens > 0, !software);
    const bool adreno_6 = snapshot.driver == kQualcomm && snapshot.device >> 24 == 6;
    EXPECT_EQ(!plan.workarounds.empty(), software || adreno_6 || fitted.contains(snapshot.driver));
    for (const std::string& reason : plan.workarounds) EXPECT_FALSE(reason.empty());
  }
}

// Tile sizes that these devices' compilers can keep in registers (apps/compilers/results).
TEST(Plan, TilesAreSmallWhereRegistersAreFew) {
  for (const Snapshot& snapshot : {kDevices[4], kDevices[5], kDevices[6]}) {
    const Plan plan = make_plan(caps_of(snapshot));
    EXPECT_EQ(plan.tile_tokens, 16u) << snapshot.name;
    EXPECT_EQ(plan.block_tokens, 2u) << snapshot.name;
  }
  Caps mali = caps_of(kDevices[6]);
  EXPECT_TRUE(make_plan(mali).subgroup);
  mali.driver_id = kPanvk;
  EXPECT_FALSE(make_plan(mali).subgroup) << "its compiler spills what subgroup arithmetic leaves";
  EXPECT_EQ(make_plan(mali).block_tokens, 2u);
  Caps v3d_caps = caps_of(kDevices[0]);
  v3d_caps.subgroup = true;  // newer drivers
  const Plan v3d = make_plan(v3d_caps);
  EXPECT_FALSE(v3d.subgroup);
  EXPECT_EQ(v3d.tile_tokens, 16u);
  EXPECT_EQ(v3d.block_tokens, 1u);
  EXPECT_TRUE(v3d.fewest_registers);
  for (const uint32_t driver : {kPowerVr, kPowerVrMesa}) {
    Caps powervr = caps_of(kDevices[7]);
    powervr.driver_id = driver;
    EXPECT_EQ(make_plan(powervr).block_tokens, 4u) << driver;
  }
  Caps adreno = caps_of(kDevices[1]);
  const std::pair<uint32_t, uint32_t> chips[] = {
      {0x060108ff, 1}, {0x06030001, 1}, {0x06030500, 8}, {0x060600ff, 8}, {0x43050a01, 8}};
  for (const uint32_t driver : {kTurnip, kQualcomm})
    for (const auto& [chip, block_tokens] : chips) {
      adreno.driver_id = driver;
      adreno.device_id = chip;
      EXPECT_EQ(make_plan(adreno).block_tokens, block_tokens) << driver << ' ' << chip;
      EXPECT_EQ(make_plan(adreno).gates_apart, chip == 0x06030500 || chip == 0x060600ff) << driver << ' ' << chip;
    }
}

TEST(Plan, NewerLlvmpipesTakeFewerTokensAtOnce) {
  Caps caps = caps_of(kDevices[12]);
  ASSERT_EQ(caps.driver_id, kLlvmpipe);
  for (const auto& [driver_version, block_tokens] : {std::pair{1u, 8u}, {version(26, 2), 4u}}) {
    caps.driver_version = driver_version;
    EXPECT_EQ(make_plan(caps).block_tokens, block_tokens) << driver_version;
  }
}

// Drivers of Vulkan 1.1 need not name themselves: on phones the vendor says which it is.
TEST(Plan, PhonesDriversAreKnownByTheirVendors) {
  const std::pair<uint32_t, uint32_t> known[] = {{0x5143, kQualcomm}, {0x13b5, kArm},    {0x1010, kPowerVr},
                                                 {0x144d, kSamsung},  {0x10de, kNvidia}, {0x1002, 0},
                                                 {0x8086, 0}};
  for (const auto& [vendor, driver] : known) EXPECT_EQ(likely_driver(vendor), driver) << vendor;
}

// A submission of a phone's GPU must end before a watchdog takes it for a hang.
TEST(Plan, SubmissionsAreBoundedWhereAScreenWaitsOrAKernelKillsThem) {
  for (const Snapshot& snapshot : kDevices)
    EXPECT_EQ(make_plan(caps_of(snapshot)).submission_ms, snapshot.kind == DeviceKind::cpu ? 0u
                                                          : snapshot.kind == kPhone        ? 50u
                                                                                           : 500u)
        << snapshot.name;
}

// Only where the compiler gains (apps/compilers/results), and a subgroup never spans two parts of a row: Vulkan 1.1
// lets a driver mix or leave out invocations of a subgroup unless it promises full ones, and one of 128 has two parts'
// lanes.
TEST(Plan, SubgroupsHaveUniformPartsOnlyWhereTheyFitAndPay) {
  Caps good = caps_of(kDevices[9]);
  EXPECT_FALSE(make_plan(good).uniform_parts) << "no full subgroups";
  good.full_subgroups = good.shuffle = true;
  for (const auto& [size, uniform] :
       {std::pair(0u, false), {2u, false}, {4u, true}, {32u, true}, {48u, false}, {64u, true}, {128u, false}}) {
    good.subgroup_size = size;
    EXPECT_EQ(make_plan(good).uniform_parts, uniform) << size;
  }
  good.subgroup_size = 32;
  for (const uint32_t driver : {kAmd, kNvidia, kAnv, kQualcomm, kTurnip, kMoltenVk}) {
    good.driver_id = driver;
    EXPECT_FALSE(make_plan(good).uniform_parts) << driver << ": not measured, or a loss";
  }
  good.driver_id = kNvk;
  EXPECT_FALSE(make_plan(good).uniform_parts) << "before Volta";
  good.fp16 = true;
  EXPECT_TRUE(make_plan(good).uniform_parts);
  EXPECT_FALSE(make_plan(good).workarounds.empty());
  for (const char* feature : {"full_subgroups", "shuffle"}) {
    Caps less = good;
    disable(less, feature);
    EXPECT_FALSE(make_plan(less).uniform_parts) << feature;
  }
}

// Matrices fit if the workgroup has whole subgroups, and the smallest tile has a matrix for each of them.
TEST(Plan, TilesAreMultipliedAsMatricesWhereThoseFit) {
  Caps good = caps_of(kDevices[1]);
  good.matrices = good.fp16 = good.full_subgroups = true;
  good.max_shared = 32768;
  for (const auto& [side, subgroup, fits] : {std::tuple(16u, 32u, true),
                                             {16u, 64u, true},
                                             {16u, 16u, false},
                                             {8u, 8u, true},
                                             {8u, 4u, false},
                                             {16u, 48u, false},
                                             {16u, 0u, false}}) {
    good.matrix_side = side;
    good.subgroup_size = subgroup;
    EXPECT_EQ(make_plan(good).matrix_side, fits ? side : 0) << side << " in subgroups of " << subgroup;
  }
  good.subgroup_size = 32;
  for (const char* feature : {"matrices", "fp16", "full_subgroups"}) {
    Caps less = good;
    disable(less, feature);
    EXPECT_EQ(make_plan(less).matrix_side, 0u) << feature;
  }
  Caps small = good;
  small.max_shared = 32767;
  EXPECT_EQ(make_plan(small).matrix_side, 0u);
  good.kind = DeviceKind::cpu;
  EXPECT_EQ(make_plan(good).matrix_side, 0u) << "a CPU multiplies no tiles";
}

TEST(Plan, SubgroupsOnlyWhereTheyPay) {
  Caps caps = caps_of(kDevices[1]);
  EXPECT_TRUE(make_plan(caps).subgroup);
  caps.subgroup_size = 2;
  EXPECT_FALSE(make_plan(caps).subgroup);
  caps.subgroup_size = 64;
  caps.subgroup = false;
  EXPECT_FALSE(make_plan(caps).subgroup);
}

TEST(Plan, InputsAreRoundedOnDemandWhereADeviceHasDotProducts) {
  for (const Snapshot& snapshot : {kDevices[1], kDevices[12]}) {
    Caps caps = caps_of(snapshot);
    caps.int8_dot = true;
    Plan slow = make_plan(caps);
    EXPECT_THROW(round_inputs(slow, caps), Error);
    EXPECT_FALSE(slow.int8_inputs);
    caps.int8_dot_fast = true;
    Plan plan = make_plan(caps);
    EXPECT_FALSE(plan.int8_inputs);
    round_inputs(plan, caps);
    EXPECT_TRUE(plan.int8_inputs);
    EXPECT_FALSE(plan.half_tiles);
    caps.fp16 = true;
    plan = make_plan(caps);
    EXPECT_FALSE(plan.half_tiles) << "not unless asked for";
    round_inputs(plan, caps);
    EXPECT_TRUE(plan.half_tiles);
    EXPECT_EQ(plan.tile_tokens, 64u);
    disable(caps, "int8_dot");
    EXPECT_THROW(round_inputs(plan, caps), Error);
  }
  for (const Snapshot& snapshot : {kDevices[0], kDevices[6]}) {
    Caps caps = caps_of(snapshot);
    caps.int8_dot = caps.int8_dot_fast = true;
    Plan plan = make_plan(caps);
    EXPECT_FALSE(rounding_pays(caps)) << snapshot.name;
    EXPECT_THROW(round_inputs(plan, caps), Error) << snapshot.name << ": tiles of rounded inputs spill";
    EXPECT_FALSE(plan.int8_inputs);
  }
}

TEST(Plan, WithoutTimestampsNothingIsTimed) {
  Caps caps = caps_of(kDevices[1]);
  EXPECT_GT(make_plan(caps).profile_every, 0u);
  caps.timestamps = false;
  EXPECT_EQ(make_plan(caps).profile_every, 0u);
}

// Plan of lavapipe; a driver with few texels a view, or without shuffles of eight lanes, uses buffers.
TEST(Plan, SoftwareWithManyTexelsReadsWeightsAsTexels) {
  Caps caps = caps_of(kDevices[12]);
  caps.max_texels = caps.max_range / 16;
  caps.shuffle = true;
  caps.subgroup_size = 8;
  const Caps good = caps;
  EXPECT_TRUE(make_plan(caps).texel_products);
  caps.max_texels -= 1;
  EXPECT_FALSE(make_plan(caps).texel_products);
  caps = good;
  caps.shuffle = false;
  EXPECT_FALSE(make_plan(caps).texel_products);
  for (const uint32_t lanes : {4u, 16u}) {
    caps = good;
    caps.subgroup_size = lanes;
    EXPECT_FALSE(make_plan(caps).texel_products) << lanes;
  }
  caps = caps_of(kDevices[0]);
  caps.max_texels = caps.max_range / 16;
  caps.shuffle = true;
  caps.subgroup_size = 8;
  EXPECT_FALSE(make_plan(caps).texel_products) << "a GPU";
}

TEST(Plan, RefusesWhatIsTooOldOrTooSmall) {
  const Caps good = caps_of(kDevices[0]);
  EXPECT_EQ(refusal_of(good), "");
  Caps caps = good;
  caps.api_version = version(1, 0) | 155;
  EXPECT_EQ(refusal_of(caps), "the device has Vulkan 1.0, Weft needs 1.1");
  caps = good;
  caps.max_threads = 64;
  EXPECT_EQ(refusal_of(caps), "the device's maxComputeWorkGroupInvocations is 64, Weft needs 128");
  caps = good;
  caps.max_shared = 8192;
  EXPECT_EQ(refusal_of(caps), "the device's maxComputeSharedMemorySize is 8192, Weft needs 16384");
  caps = good;
  caps.offset_alignment = 512;
  EXPECT_EQ(refusal_of(caps), "the device's minStorageBufferOffsetAlignment is 512, Weft needs 256");
  caps = good;
  caps.max_bindings = 4;
  EXPECT_EQ(refusal_of(caps), "the device's maxPerStageDescriptorStorageBuffers is 4, Weft needs 8");
}

TEST(Disable, ClearsTheFeaturesNamed) {
  const auto features = [](const Caps& caps) {
    return std::vector<bool>{caps.subgroup,      caps.shuffle, caps.full_subgroups, caps.timestamps,
                             caps.memory_budget, caps.fp16,    caps.int8_dot,       caps.matrices};
  };
  Caps all;
  all.subgroup = all.shuffle = all.full_subgroups = true;
  all.timestamps = all.memory_budget = all.fp16 = all.int8_dot = all.matrices = true;
  Caps caps = all;
  disable(caps, "");
  EXPECT_EQ(features(caps), std::vector<bool>(8, true));
  const char* names[] = {"subgroup",      "shuffle", "full_subgroups", "timestamps",
                         "memory_budget", "fp16",    "int8_dot",       "matrices"};
  for (size_t i = 0; i < 8; ++i) {
    caps = all;
    disable(caps, names[i]);
    std::vector<bool> want(8, true);
    want[i] = false;
    EXPECT_EQ(features(caps), want) << names[i];
  }
  caps = all;
  disable(caps, "fp16,subgroup,,int8_dot,");
  EXPECT_EQ(features(caps), (std::vector<bool>{false, true, true, true, true, false, false, true}));
}

TEST(Disable, RefusesUnknownNames) {
  for (const char* list : {"warp", "subgroup,fp17", "subgroup ", "Subgroup"}) {
    Caps caps;
    try {
      disable(caps, list);
      ADD_FAILURE() << list << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_EQ(error.place(), "WEFT_DISABLE");
      EXPECT_NE(
          error.hint().find("subgroup, shuffle, full_subgroups, timestamps, memory_budget, fp16, int8_dot, matrices"),
          std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weft
