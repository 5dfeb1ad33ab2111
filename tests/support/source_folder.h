// Folder of this project's sources. A function and not a macro, so that compiled code does not depend on the folder:
// compilers' caches then serve other checkouts too.
#pragma once

#include <filesystem>

namespace weft {

std::filesystem::path source_folder();

}  // namespace weft
