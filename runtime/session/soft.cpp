#include "session/soft.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "session/session.h"

namespace weft {

bool are_finite(std::span<const float> rows) {
  return std::ranges::all_of(rows, [](float value) { return std::isfinite(value); });
}

SoftContext join_parts(std::span<const PromptPart> parts, uint32_t vocab, uint32_t width) {
  SoftContext all;
  for (const PromptPart& part : parts) {
    check_ids(part.ids, vocab);
    all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
    require(part.rows.size() % width == 0, "rows",
            std::to_string(part.rows.size()) + " floats are no rows of " + std::to_string(width));
    require(are_finite(part.rows), "rows", "one has a value that is no finite number");
    for (size_t row = 0; row < part.rows.size() / width; ++row)
      all.ids.push_back(SOFT_ID + static_cast<uint32_t>(all.rows.size() / width + row));
    all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
  }
  return all;
}

bool are_numbered(std::span<const uint32_t> ids, size_t rows) {
  size_t next = 0;
  for (const uint32_t id : ids)
    if (is_soft(id) && id - SOFT_ID != next++) return false;
  return next == rows;
}

size_t common_prefix(std::span<const uint32_t> ids, std::span<const float> rows, std::span<const uint32_t> other_ids,
                     std::span<const float> other_rows, uint32_t width) {
  const auto same = [&](uint32_t id, uint32_t other) {
    if (id != other || !is_soft(id)) return id == other;
    const size_t row = size_t{id - SOFT_ID} * width;
    return std::memcmp(&rows[row], &other_rows[row], size_t{width} * sizeof(float)) == 0;
  };
  return static_cast<size_t>(std::ranges::mismatch(ids, other_ids, same).in1 - ids.begin());
}

}  // namespace weft
