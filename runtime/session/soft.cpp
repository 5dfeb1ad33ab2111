#include "session/soft.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "session/session.h"

namespace weft {

bool are_finite(std::span<const float> rows) {
  return std::ranges::all_of(rows, [](float value) { return std::isfinite(value); });
}

SoftContext join_parts(std::span<const PromptPart> parts, uint32_t vocab, uint32_t width, uint32_t deepstack) {
  const size_t all_width = size_t{width} * (1 + deepstack);
  SoftContext all;
  for (const PromptPart& part : parts) {
    check_ids(part.ids, vocab);
    all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
    require(part.rows.size() % width == 0, "rows",
            std::to_string(part.rows.size()) + " floats are no rows of " + std::to_string(width));
    require(are_finite(part.rows) && are_finite(part.deepstack), "rows", "one has a value that is no finite number");
    const size_t count = part.rows.size() / width;
    const bool picture = part.grid != PictureGrid();
    require(!picture || uint64_t{part.grid.height} * part.grid.width == count, "rows",
            std::to_string(count) + " are no picture of " + std::to_string(part.grid.height) + " x " +
                std::to_string(part.grid.width));
    require(part.deepstack.size() == (picture ? count * width * deepstack : 0), "rows",
            "those that are added after layers are not as many");
    if (picture) all.pictures.push_back({all.ids.size(), part.grid});
    for (size_t row = 0; row < count; ++row) {
      all.ids.push_back(SOFT_ID + static_cast<uint32_t>(all.rows.size() / all_width));
      const auto first = part.rows.begin() + static_cast<ptrdiff_t>(row * width);
      all.rows.insert(all.rows.end(), first, first + width);
      for (size_t layer = 0; layer < deepstack; ++layer) {
        if (!picture) {
          all.rows.insert(all.rows.end(), width, 0.0f);
          continue;
        }
        const std::span<const float> own = part.deepstack.subspan((layer * count + row) * width, width);
        all.rows.insert(all.rows.end(), own.begin(), own.end());
      }
    }
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
                     std::span<const float> other_rows, size_t row) {
  const auto same = [&](uint32_t id, uint32_t other) {
    if (id != other || !is_soft(id)) return id == other;
    const size_t begin = size_t{id - SOFT_ID} * row;
    return std::memcmp(&rows[begin], &other_rows[begin], row * sizeof(float)) == 0;
  };
  return static_cast<size_t>(std::ranges::mismatch(ids, other_ids, same).in1 - ids.begin());
}

size_t same_grids(std::span<const PlacedPicture> pictures, std::span<const PlacedPicture> others, size_t tokens) {
  const auto [own, other] = std::ranges::mismatch(pictures, others);
  if (own != pictures.end()) tokens = std::min(tokens, own->begin);
  if (other != others.end()) tokens = std::min(tokens, other->begin);
  return tokens;
}

}  // namespace weft
