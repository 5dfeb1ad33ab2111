#include "support/source_folder.h"

#include <cstdlib>

namespace weft {

std::filesystem::path source_folder() {
  const char* const moved = std::getenv("WEFT_SOURCE");
  return moved ? moved : WEFT_SOURCE_DIR;
}

}  // namespace weft
