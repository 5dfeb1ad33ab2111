#include "formats/format.h"

#include <algorithm>
#include <array>

namespace weft {

// Each is defined in the format's own file.
NumberFormat f16_format();
NumberFormat q8_format();
NumberFormat q4_format();
NumberFormat q6_format();
NumberFormat q5k_format();
NumberFormat q4k_format();
NumberFormat q4_0_format();
NumberFormat q5_0_format();
NumberFormat q5_1_format();
NumberFormat mxfp4_format();
NumberFormat iq4_nl_format();
NumberFormat q3k_format();
NumberFormat iq4_xs_format();
NumberFormat iq3_xxs_format();
NumberFormat iq3_s_format();
NumberFormat iq2_format();
NumberFormat iq1_format();
NumberFormat q2k_format();

const NumberFormat& info(Format format) {
  // By FORMAT_*.
  static const std::array<NumberFormat, std::size(kAllFormats)> all = {
      f16_format(),    q8_format(),      q4_format(),    q6_format(),    q5k_format(),    q4k_format(),
      q4_0_format(),   q5_0_format(),    q5_1_format(),  mxfp4_format(), iq4_nl_format(), q3k_format(),
      iq4_xs_format(), iq3_xxs_format(), iq3_s_format(), iq2_format(),   iq1_format(),    q2k_format()};
  return all[static_cast<size_t>(format)];
}

std::optional<Format> common_format(std::span<const DType> types) {
  for (size_t i = std::size(kAllFormats); i-- > 0;) {
    const std::span<const DType> from = info(kAllFormats[i]).from;
    if (std::ranges::all_of(types, [&](DType type) { return std::ranges::find(from, type) != from.end(); }))
      return kAllFormats[i];
  }
  return std::nullopt;
}

// Every type is in a list.
Format closest_format(DType type) { return *common_format({&type, 1}); }

}  // namespace weft
