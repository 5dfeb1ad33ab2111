#include "session/pictures.h"

#include "session/soft.h"

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

}  // namespace weft
