#include "format/json.h"

#include "format/limits.h"

namespace weft {

JsonValue parse_json(std::string_view text, const std::string& place) {
  return parse_json(text, {kMaxJsonBytes, kMaxValues, kMaxJsonDepth}, Code::bad_file, place);
}

}  // namespace weft
