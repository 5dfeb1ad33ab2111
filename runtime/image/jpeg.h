// Checks of a JPEG file before stb_image decodes it. Not for other modules.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace weft {

// The file without comments and the segments of applications (except JFIF's and Adobe's, which define the colours).
// Throws Error(bad_file) if one of its Huffman tables has more than 256 codes: stb_image 2.27 writes them beyond
// its table.
std::vector<std::byte> checked_jpeg(std::span<const std::byte> file, const std::string& place);

}  // namespace weft
