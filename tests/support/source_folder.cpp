#include "support/source_folder.h"

namespace weft {

std::filesystem::path source_folder() { return WEFT_SOURCE_DIR; }

}  // namespace weft
