// Pictures in a context: soft tokens that see each other (Config::picture_token).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "model/config.h"

namespace weft {

struct TokenRange {
  size_t begin, end;
};

// The first picture of which a token after `from` is not computed yet. The last token of a picture sees what it sees in
// a pass of its own too, so a picture without that one counts as computed.
std::optional<TokenRange> next_picture(const Config& config, std::span<const uint32_t> ids, size_t from);

// `tokens`, or the begin of the picture that they end in.
size_t whole_pictures(const Config& config, std::span<const uint32_t> ids, size_t tokens);

}  // namespace weft
