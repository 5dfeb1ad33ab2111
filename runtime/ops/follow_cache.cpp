#include "ops/support.h"

#include "follow_cache.spv.h"

namespace weft::ops {

void follow_cache(Recorder& recorder, const HeadShape& shape, const View& state, const CacheView& cache) {
  require(shape.head_dim % 2 == 0, "follow_cache", "odd head dimension");
  require_cache(shape, cache, "follow_cache");
  recorder.dispatch(
      shaders::follow_cache,
      shaders::FollowCache::Constants{.key_format = cache.format.keys, .value_format = cache.format.values},
      shaders::FollowCache::Bindings{.state = state, .keys = cache.keys, .values = cache.values},
      abi::FollowCachePush{shape.head_dim, cache.capacity}, {shape.kv_heads, 2});
}

}  // namespace weft::ops
