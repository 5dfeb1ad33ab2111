#include "gpu/plan.h"

#include <vulkan/vulkan_core.h>

#include <algorithm>

#include "base/error.h"
#include "gpu/plan_requirements.h"

namespace weft {
namespace {

// Driver faults and oddities, each with its reason: the only place for them. Versions are VkPhysicalDeviceProperties'
// driverVersion, [first, last].
struct Workaround {
  uint32_t driver_id;
  uint32_t first_version, last_version;
  const char* reason;
  void (*apply)(Plan& plan);
  bool (*concerns)(const Caps& caps) = nullptr;  // of the driver's devices; none: all
};

constexpr uint32_t kAny = 0xffffffff;

constexpr const char* kMaliReason = "Mali has 64 registers a thread: smaller tiles and groups of tokens";
void fit_mali(Plan& plan) {
  plan.tile_tokens = 16;
  plan.block_tokens = 2;
}
// True for Mali and V3D.
bool has_few_registers(const Caps& caps) {
  return caps.driver_id == VK_DRIVER_ID_MESA_PANVK || caps.driver_id == VK_DRIVER_ID_ARM_PROPRIETARY ||
         caps.driver_id == VK_DRIVER_ID_MESA_V3DV;
}

constexpr const char* kAdrenoReason = "Adreno 610 to 630 have few registers: products of several tokens go by tiles";
void fit_old_adreno(Plan& plan) { plan.block_tokens = 1; }
// The chip's number, then its revision, of which 5 is that of the Adreno 635 and 643: chips like the 660.
bool is_old_adreno(const Caps& caps) {
  return caps.device_id >> 16 < 0x0603 || (caps.device_id >> 16 == 0x0603 && (caps.device_id >> 8 & 0xff) < 5);
}
constexpr const char* kAdreno6Reason = "Adreno 640 to 690 have few registers: gates of q6 and q2k come first";
void fit_adreno_6(Plan& plan) { plan.gates_apart = true; }
bool is_adreno_6(const Caps& caps) { return !is_old_adreno(caps) && caps.device_id >> 24 == 6; }

constexpr const char* kPowerVrReason = "a thread of PowerVR's has no registers for groups of 8 tokens";
void fit_powervr(Plan& plan) { plan.block_tokens = 4; }

// These products also require that unpackHalf2x16 keeps subnormal halves (shaders/lib/half.glsl), as in RADV and NVK.
void use_uniform_parts(Plan& plan) { plan.uniform_parts = true; }

constexpr Workaround kWorkarounds[] = {
    {VK_DRIVER_ID_MESA_LLVMPIPE, 0, kAny,
     "llvmpipe runs each barrier as a switch of coroutines: small workgroups reduce faster",
     [](Plan& plan) { plan.reduce_threads = 64; }},
    // With LLVM 22; with LLVM 15 groups of 8 or 16 are as fast.
    {VK_DRIVER_ID_MESA_LLVMPIPE, VK_MAKE_API_VERSION(0, 23, 0, 0), kAny,
     "newer llvmpipes make 1.2 to 1.7 times as fast code of products of 4 tokens as of 8 or 16",
     [](Plan& plan) { plan.block_tokens = 4; }},
    {VK_DRIVER_ID_GOOGLE_SWIFTSHADER, 0, kAny,
     "SwiftShader runs each barrier as a switch of coroutines: small workgroups reduce faster",
     [](Plan& plan) { plan.reduce_threads = 64; }},
    // Compilers spill to memory what they cannot keep in registers. docs/devices.md has the numbers that they reported.
    {VK_DRIVER_ID_MESA_TURNIP, 0, kAny, kAdrenoReason, fit_old_adreno, is_old_adreno},
    {VK_DRIVER_ID_MESA_TURNIP, 0, kAny, kAdreno6Reason, fit_adreno_6, is_adreno_6},
    // Its compiler could not be asked: the registers are the chip's.
    {VK_DRIVER_ID_QUALCOMM_PROPRIETARY, 0, kAny, kAdrenoReason, fit_old_adreno, is_old_adreno},
    {VK_DRIVER_ID_QUALCOMM_PROPRIETARY, 0, kAny, kAdreno6Reason, fit_adreno_6, is_adreno_6},
    // Not for Mesa's other drivers: Turnip's and Honeykrisp's compilers make slower code of it, and NVK's before Volta
    // no faster code.
    {VK_DRIVER_ID_MESA_RADV, 0, kAny,
     "RADV loads a product's inputs once a subgroup if it knows that they are the same", use_uniform_parts,
     has_uniform_parts},
    {VK_DRIVER_ID_MESA_NVK, 0, kAny, "NVK loads a product's inputs once a subgroup if it knows that they are the same",
     use_uniform_parts, [](const Caps& caps) { return has_uniform_parts(caps) && caps.fp16; }},  // Volta and later
    {VK_DRIVER_ID_NVIDIA_PROPRIETARY, 0, kAny,
     "on an H100 cooperative matrices took 0.75 of the time by tiles of 32 tokens",
     [](Plan& plan) { plan.tile_tokens = 32; }, can_use_matrices},
    {VK_DRIVER_ID_NVIDIA_PROPRIETARY, 0, kAny,
     "on an H100 inputs of q8 products in shared memory gave 1.05 to 1.08 times the speed",
     [](Plan& plan) { plan.staged_cols = 2048; }},
    {VK_DRIVER_ID_MESA_PANVK, 0, kAny, kMaliReason, fit_mali},
    {VK_DRIVER_ID_ARM_PROPRIETARY, 0, kAny, kMaliReason, fit_mali},
    {VK_DRIVER_ID_MESA_PANVK, 0, kAny, "PanVK carries what subgroup arithmetic leaves round loops, in 24 registers",
     [](Plan& plan) { plan.subgroup = false; }},
    {VK_DRIVER_ID_MESA_V3DV, 0, kAny,
     "V3D has 32 registers a thread: smaller tiles, no groups of tokens, less of a block at once",
     [](Plan& plan) {
       plan.tile_tokens = 16;
       plan.block_tokens = 1;
       plan.fewest_registers = true;
     }},
    {VK_DRIVER_ID_MESA_V3DV, 0, kAny, "with subgroup arithmetic V3D spills attention over a q8 cache in parts",
     [](Plan& plan) { plan.subgroup = false; }},
    {VK_DRIVER_ID_IMAGINATION_OPEN_SOURCE_MESA, 0, kAny, kPowerVrReason, fit_powervr},
    {VK_DRIVER_ID_IMAGINATION_PROPRIETARY, 0, kAny, kPowerVrReason, fit_powervr},
};

constexpr uint32_t kTileTokens = 64;

void require(bool enough, const char* what, uint64_t has, uint64_t needs, const Caps& caps) {
  if (enough) return;
  throw Error(
      Code::unsupported,
      std::string("the device's ") + what + " is " + std::to_string(has) + ", Weft needs " + std::to_string(needs),
      caps.name);
}

}  // namespace

// A subgroup lies within one part of a split row, and the pipeline can rely on it: shaders/lib/product.glsl. Where
// inputs are rounded, four lanes of a subgroup share a block: shaders/lib/rows_int8.glsl.
bool has_uniform_parts(const Caps& caps) {
  return caps.full_subgroups && caps.shuffle && caps.subgroup_size >= 4 && 64 % caps.subgroup_size == 0;
}

// shaders/matmul_matrix.comp: its workgroup of 128 threads has whole subgroups, a matrix of each fits into the least
// tile of 64 rows and 16 tokens, and its shared memory takes less than 32 KiB.
bool can_use_matrices(const Caps& caps) {
  if (!caps.matrices || !caps.fp16 || !caps.full_subgroups || caps.max_shared < 32768) return false;
  if (caps.subgroup_size == 0 || 128 % caps.subgroup_size != 0) return false;
  return 128 / caps.subgroup_size * caps.matrix_side * caps.matrix_side <= 64 * 16;
}

// A driver of few texels a view would need slices.
bool can_use_texels(const Caps& caps) {
  return caps.shuffle && caps.subgroup_size == 8 && caps.max_texels * 16 >= caps.max_range;
}

Plan make_plan(const Caps& caps) {
  if (caps.api_version < VK_API_VERSION_1_1)
    throw Error(Code::unsupported,
                "the device has Vulkan " + std::to_string(VK_API_VERSION_MAJOR(caps.api_version)) + "." +
                    std::to_string(VK_API_VERSION_MINOR(caps.api_version)) + ", Weft needs 1.1",
                caps.name);
  require(caps.max_threads >= 128, "maxComputeWorkGroupInvocations", caps.max_threads, 128, caps);
  require(caps.max_shared >= 16384, "maxComputeSharedMemorySize", caps.max_shared, 16384, caps);
  require(caps.max_bindings >= 8, "maxPerStageDescriptorStorageBuffers", caps.max_bindings, 8, caps);  // attend
  require(caps.offset_alignment <= 256, "minStorageBufferOffsetAlignment", caps.offset_alignment, 256, caps);

  Plan plan;
  // Below 4 threads (llvmpipe of one lane, odd drivers) subgroup sums save nothing over shared memory.
  plan.subgroup = caps.subgroup && caps.subgroup_size >= 4;
  plan.reduce_threads = std::min(caps.max_threads, 256u);
  const bool software = caps.kind == DeviceKind::cpu;
  // Software drivers read a storage buffer lane by lane, even if all lanes want the same value. llvmpipe gathers texels
  // without a branch a lane, and shuffles a subgroup by one instruction: together fifteen times the speed.
  plan.texel_products = software && can_use_texels(caps);
  // Four rows a lane: eight lanes read whole groups of a tile (abi.h).
  plan.row_tiles = software ? 4 : 1;
  // A CPU has few lanes and pays for the barrier that joins split rows; a GPU needs the threads to hide its memory's
  // latency.
  plan.split = software ? 1 : std::min(caps.max_threads, 256u) / 64;
  // On an H100 of 132 cores 256 were faster than 528 to 4,224 (apps/bench/results).
  plan.product_groups = 256;
  plan.block_tokens = 8;  // tokens for which weights are unpacked once
  // A GPU's threads share what they read through shared memory, in which every weight of a tile is unpacked once; for a
  // software driver that is memory as any other, and each barrier costs.
  plan.tile_tokens = software ? 0 : kTileTokens;
  plan.matrix_side = !software && can_use_matrices(caps) ? caps.matrix_side : 0;
  // A GPU wants more workgroups than heads; a CPU has few cores, but llvmpipe ends loops after 65,535 rounds in all,
  // and attend takes two or three for a position.
  plan.attend_span = software ? 4096 : 64;
  // The weights are read once for a chunk. A GPU that shares the host's memory usually draws the screen, too.
  plan.chunk_tokens = software ? 64 : caps.kind == DeviceKind::integrated ? 128 : 512;
  plan.slice_bytes = caps.max_range;
  plan.run_ahead = 3;
  // A screen waits meanwhile, and a kernel takes a job of some seconds for a hang: amdgpu's limit is 2 to 60 s, xe's 5
  // s.
  plan.submission_ms = software ? 0 : caps.kind == DeviceKind::integrated ? 50 : 500;
  plan.profile_every = caps.timestamps ? 16 : 0;
  for (const Workaround& fault : kWorkarounds) {
    if (fault.driver_id != caps.driver_id || caps.driver_version < fault.first_version ||
        caps.driver_version > fault.last_version || (fault.concerns && !fault.concerns(caps)))
      continue;
    fault.apply(plan);
    plan.workarounds.push_back(fault.reason);
  }
  return plan;
}

bool rounding_pays(const Caps& caps) { return caps.int8_dot && caps.int8_dot_fast && !has_few_registers(caps); }

void round_inputs(Plan& plan, const Caps& caps) {
  if (has_few_registers(caps))
    throw Error(Code::unsupported, "inputs of 8 bits would make products slower", caps.name,
                "their tiles need more registers than the device has");
  if (!rounding_pays(caps))
    throw Error(Code::unsupported, "the device has no fast integer dot products, which inputs of 8 bits need",
                caps.name, "weft devices shows int8_dot_fast: only such devices gain by them");
  plan.int8_inputs = true;
  // For f16 matrices. Not a default: its rounding changes results several times as much as f16 weights and caches do.
  plan.half_tiles = caps.fp16;
  if (plan.tile_tokens == 0) plan.tile_tokens = kTileTokens;
}

}  // namespace weft
