// GGUF's IQ3_S, its code book opened.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq3_s};

}  // namespace

NumberFormat iq3_s_format() {
  return {"iq3_s", DType::iq3_s, kFrom, Format::q8, true, four_bit_row_bytes, nullptr, copy_four_bits};
}

}  // namespace weft
