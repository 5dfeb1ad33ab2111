#include "session/pictures.h"

#include <algorithm>

#include "base/error.h"
#include "session/sampling.h"

namespace weft {
namespace {

// The first picture that ends after `tokens`.
std::optional<TokenRange> picture_after(const Config& config, std::span<const uint32_t> ids, size_t tokens) {
  if (!config.picture_token) return std::nullopt;
  for (size_t begin = 1; begin < ids.size(); ++begin) {
    if (ids[begin - 1] != *config.picture_token) continue;
    size_t end = begin;
    while (end < ids.size() && is_soft(ids[end])) ++end;
    if (end > begin && end > tokens) return TokenRange{begin, end};
  }
  return std::nullopt;
}

}  // namespace

std::optional<TokenRange> next_picture(const Config& config, std::span<const uint32_t> ids, size_t from) {
  return picture_after(config, ids, from + 1);
}

size_t whole_pictures(const Config& config, std::span<const uint32_t> ids, size_t tokens) {
  const std::optional<TokenRange> picture = picture_after(config, ids, tokens);
  return picture && picture->begin < tokens ? picture->begin : tokens;
}

void check_grids(const Config& config, std::span<const uint32_t> ids, std::span<const PlacedPicture> pictures) {
  if (!pictures.empty() && !config.grid_token)
    throw Error(Code::unsupported, "the model's pictures have no rows and columns", "rows");
  size_t at = 0;
  for (const auto& [begin, grid] : pictures) {
    const uint64_t count = uint64_t{grid.height} * grid.width;
    require(count > 0 && begin >= at && begin <= ids.size() && count <= ids.size() - begin &&
                std::ranges::all_of(ids.subspan(begin, count), is_soft),
            "rows", "a picture is not where soft tokens are");
    at = begin + count;
  }
  if (!config.grid_token) return;
  for (size_t i = 1; i < ids.size(); ++i)
    if (is_soft(ids[i]) && ids[i - 1] == *config.grid_token &&
        std::ranges::none_of(pictures, [&](const PlacedPicture& picture) { return picture.begin == i; }))
      throw Error(Code::unsupported, "a picture's rows without its height and width", "rows",
                  "weft_session_prompt_images takes pictures of this family");
}

std::vector<RopePosition> positions_of(std::span<const PlacedPicture> pictures, size_t first, size_t end) {
  std::vector<RopePosition> all;
  uint32_t position = 0;
  const auto add = [&](size_t at, const RopePosition& own) {
    if (at >= first && at < end) all.push_back(own);
  };
  size_t at = 0;
  const auto add_text = [&](size_t until) {
    for (; at < until; ++at, ++position) add(at, {position, position, position});
  };
  for (const auto& [begin, grid] : pictures) {
    add_text(std::min(begin, end));
    for (uint32_t row = 0; row < grid.height; ++row)
      for (uint32_t column = 0; column < grid.width; ++column) add(at++, {position, position + row, position + column});
    position += std::max(grid.height, grid.width);
  }
  add_text(end);
  return all;
}

}  // namespace weft
