#include "reference/gather.h"

#include <algorithm>

namespace weft::reference {

Rows gather(const Rows& table, std::span<const uint32_t> ids) {
  Rows x(static_cast<uint32_t>(ids.size()), table.cols);
  for (uint32_t t = 0; t < x.rows; ++t) std::ranges::copy(table.row(ids[t]), x.row(t).begin());
  return x;
}

}  // namespace weft::reference
