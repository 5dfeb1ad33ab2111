// Choices that Weft makes for a device: a pure function of its Caps, so tests need no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/caps.h"

namespace weft {

// A lane is one thread of a workgroup.
struct Plan {
  bool subgroup = false;          // reductions through subgroup arithmetic rather than shared memory
  uint32_t reduce_threads = 0;    // lanes of a workgroup that reduces a row (norm, attend, sampling)
  uint32_t split = 0;             // lanes that share a matrix row when decoding; a workgroup has 64 x split lanes
  uint32_t product_groups = 0;    // workgroups that a layer's product for one token has, if it can: ops/rows.cpp
  uint32_t staged_cols = 0;       // q8 products of one token with no more columns bring inputs to shared memory first
  uint32_t row_tiles = 0;         // tiles of rows that a workgroup of a product computes; a lane has a row of each
  bool texel_products = false;    // kernels read as texels; subgroups of 8 share by shuffles what all their lanes need
  bool uniform_parts = false;     // if split > 1, products have full subgroups, whose lanes load the same inputs
  bool fewest_registers = false;  // a lane holds less at once: docs/devices.md
  bool gates_apart = false;       // products of q6 and q2k compute gates before what they gate
  uint32_t attend_span = 0;       // cache positions for each workgroup of attend; the last one joins the parts
  uint32_t block_tokens = 0;      // prompt tokens that a lane of a prompt product accumulates at once
  uint32_t tile_tokens = 0;    // tokens of a tile that a workgroup of matmul_tiled computes; 0: matmul computes prompts
  uint32_t matrix_side = 0;    // of the cooperative matrices that tiles are multiplied with; 0: without them
  bool half_tiles = false;     // matmul_tiled keeps and multiplies tiles as halves
  bool int8_inputs = false;    // products by tiles or with uniform_parts round inputs to 8 bits, except for f16
                               // matrices; off unless asked for
  uint32_t chunk_tokens = 0;   // prompt tokens computed per pass over the layers
  uint64_t slice_bytes = 0;    // the most of a matrix one binding covers
  uint32_t run_ahead = 0;      // tokens submitted before the CPU has read the first of them
  uint32_t submission_ms = 0;  // the longest that a submission of a pass should take, by measurement; 0: no bound
  uint32_t profile_every = 0;  // every n-th decoded token is timed per operation; 0: never
  uint64_t memory_budget = 0;  // bytes of Memory::device and shared that buffers may take together; 0: no limit
  bool statistics = false;     // kernels keep the compiler's statistics (Kernel::statistics); only on in tests
  std::vector<std::string> workarounds;  // reasons of those applied

  bool operator==(const Plan&) const = default;
};

// Throws Error(unsupported) naming the limit, if the device has less than Vulkan 1.1 or than the kernels need.
Plan make_plan(const Caps& caps);

// True if products are faster with inputs rounded to 8 bits: not if the driver emulates integer dot products with other
// instructions, and not on Mali and V3D.
bool rounding_pays(const Caps& caps);

// Sets int8_inputs, half_tiles (for f16 matrices) if the device computes with halves, and tile_tokens if it was 0.
// Throws Error(unsupported) if rounding does not pay.
void round_inputs(Plan& plan, const Caps& caps);

}  // namespace weft
