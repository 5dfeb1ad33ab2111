// GGUF's IQ2 types, their code books opened.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq2_xxs, DType::iq2_xs, DType::iq2_s};

}  // namespace

NumberFormat iq2_format() {
  return {"iq2", DType::iq2_s, kFrom, Format::q8, false, three_bit_row_bytes, nullptr, copy_three_bits};
}

}  // namespace weft
