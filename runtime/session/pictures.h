// Pictures in a context: soft tokens that see each other (Config::picture_token), or that have rows and columns
// (Config::grid_token).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/config.h"
#include "session/soft.h"

namespace weft {

struct TokenRange {
  size_t begin, end;
};

// The first picture of which a token after `from` is not computed yet. The last token of a picture sees what it sees in
// a pass of its own too, so a picture without that one counts as computed.
std::optional<TokenRange> next_picture(const Config& config, std::span<const uint32_t> ids, size_t from);

// `tokens`, or the begin of the picture that they end in.
size_t whole_pictures(const Config& config, std::span<const uint32_t> ids, size_t tokens);

// Throws Error(invalid_argument) for pictures that are not soft tokens in order, and Error(unsupported) for a model
// without grids, and for one with them if soft tokens that begin like a picture have none.
void check_grids(const Config& config, std::span<const uint32_t> ids, std::span<const PlacedPicture> pictures);

// Positions of the tokens from `first` to `end`, in a context with these pictures; those before `first` are whole. A
// picture's tokens have the time of its first one, and its row and column from there on. The text after it goes on
// after the largest of these numbers.
std::vector<RopePosition> positions_of(std::span<const PlacedPicture> pictures, size_t first, size_t end);

}  // namespace weft
