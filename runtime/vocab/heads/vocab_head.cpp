#include "vocab/heads/vocab_head.h"

namespace weft {

double RowsRead::bytes(const Matrix& table) const {
  if (table.layout == Layout::values)
    return static_cast<double>(exact) * static_cast<double>(table.tile_bytes()) / TILE_ROWS;
  const PlaneBytes row = plane_bytes(table.format, table.cols);
  double sum = static_cast<double>(exact) * row.whole;
  if (mode < HEAD_ALL) sum += static_cast<double>(positions) * row.estimates[mode];
  for (size_t stage = 0; stage < refined.size(); ++stage)
    sum += static_cast<double>(refined[stage]) * row.refine[stage];
  if (mode == HEAD_LEADING)  // the signs again, with the second bits
    sum += static_cast<double>(refined[1]) * (row.estimates[HEAD_SIGNS] - row.estimates[HEAD_LEADING]);
  return sum;
}

}  // namespace weft
