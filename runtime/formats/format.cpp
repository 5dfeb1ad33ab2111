#include "formats/format.h"

#include <algorithm>
#include <array>

namespace weft {

// Each is defined in the format's own file.
NumberFormat f16_format();
NumberFormat q8_format();
NumberFormat q4_format();
NumberFormat q6_format();

const NumberFormat& info(Format format) {
  // By FORMAT_*.
  static const std::array<NumberFormat, std::size(kAllFormats)> all = {f16_format(), q8_format(), q4_format(),
                                                                       q6_format()};
  return all[static_cast<size_t>(format)];
}

Format closest_format(DType type) {
  for (const Format format : kAllFormats)
    if (std::ranges::find(info(format).from, type) != info(format).from.end()) return format;
  return Format::q8;  // not reached: every type is in a list
}

}  // namespace weft
