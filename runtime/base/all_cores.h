// Work on all cores of the host.
#pragma once

#include <cstdint>
#include <functional>

namespace weft {

// Calls work(begin, end) for ranges that together are [0, count), one on each core, and returns when all have returned.
// Rethrows the first range's exception.
void on_all_cores(uint64_t count, const std::function<void(uint64_t begin, uint64_t end)>& work);

}  // namespace weft
