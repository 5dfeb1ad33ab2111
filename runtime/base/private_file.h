// Files of Weft's own making, which are believed: only this process's user and the administrator may have written them.
#pragma once

#include <optional>

#include "base/file.h"

namespace weft {

// True if no other user could have put files into the folder, or it does not exist.
bool is_private_folder(const std::filesystem::path& folder);
// A file that nobody else could have written, in such a folder. nullopt also if it is not there or cannot be read.
std::optional<MappedFile> open_private(const std::filesystem::path& path);

}  // namespace weft
