// What Weft does on a device, decided by a pure function of its Caps, so that it can be tested without any GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/caps.h"

namespace weft {

struct Plan {
  bool subgroup = false;        // reductions through subgroup arithmetic rather than shared memory
  uint32_t reduce_threads = 0;  // threads of a workgroup that reduces a row (norm, attend, sampling)
  uint32_t split = 0;           // lanes that share one matrix row in decode products: 64 x split threads a workgroup
  uint32_t row_tiles = 0;       // tiles of rows a workgroup of a product computes: as many rows a lane
  bool texel_products = false;  // kernels read as texels, and share what all lanes want by shuffles of subgroups of 8
  uint32_t attend_span = 0;     // positions of the cache a workgroup of attend goes through; more are joined by another
  uint32_t block_tokens = 0;    // prompt tokens a lane of a prompt product accumulates at once
  uint32_t tile_tokens = 0;     // of a tile of more tokens' products, which a workgroup computes; 0: there are no tiles
  bool half_tiles = false;      // those tiles are kept and multiplied as halves
  bool int8_inputs = false;     // those tiles' inputs are rounded to 8 bits, but for f16 matrices; off but on demand
  uint32_t chunk_tokens = 0;    // prompt tokens computed per pass over the layers
  uint64_t slice_bytes = 0;     // the most of a matrix one binding covers
  uint32_t run_ahead = 0;       // tokens submitted before the CPU has read the first of them
  uint32_t profile_every = 0;   // every n-th decoded token is timed per operation; 0: never
  uint64_t memory_budget = 0;   // bytes of Memory::device and shared that buffers may take together; 0: no limit
  bool statistics = false;      // kernels keep what the driver's compiler says of them; off but for tests
  std::vector<std::string> workarounds;  // reasons of those applied
};

// Throws Error(unsupported) naming the limit, if the device has less than Vulkan 1.1 or than the kernels need.
Plan make_plan(const Caps& caps);

// Sets int8_inputs, half_tiles (for f16 matrices) if the device computes with halves, and tile_tokens where there were
// no tiles. Throws Error(unsupported) if the device has no fast integer dot products: a driver that makes them of other
// instructions gains nothing by them.
void round_inputs(Plan& plan, const Caps& caps);

}  // namespace weft
