// GGUF's IQ4_XS, with scales as Q4_K has them.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq4_xs};

}  // namespace

NumberFormat iq4_xs_format() {
  return {"iq4_xs", DType::iq4_xs, kFrom, Format::q8, true, four_bit_row_bytes, nullptr, copy_four_bits};
}

}  // namespace weft
