#include "ops/support.h"

#include "follow_cache.spv.h"

namespace weft::ops {

void follow_cache(Recorder& recorder, const HeadShape& shape, const View& state, const CacheView& cache) {
  require(cache.format == Format::f16 || cache.format == Format::q8, "follow_cache", "the cache is neither f16 nor q8");
  require(cache.capacity % TILE_ROWS == 0, "follow_cache", "the cache is no whole number of tiles");
  require(shape.head_dim % 2 == 0, "follow_cache", "odd head dimension");
  require_bytes(cache.keys, key_bytes(shape, cache.capacity, cache.format), "follow_cache", "keys");
  require_bytes(cache.values, value_bytes(shape, cache.capacity, cache.format), "follow_cache", "values");
  recorder.dispatch({shaders::follow_cache, {static_cast<uint32_t>(cache.format)}}, {state, cache.keys, cache.values},
                    abi::FollowCachePush{shape.head_dim, cache.capacity}, {shape.kv_heads, 2});
}

}  // namespace weft::ops
