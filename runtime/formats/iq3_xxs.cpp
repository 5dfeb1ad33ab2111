// GGUF's IQ3_XXS, its code book opened.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq3_xxs};

}  // namespace

NumberFormat iq3_xxs_format() {
  return {"iq3_xxs", DType::iq3_xxs, kFrom, Format::q8, true, four_bit_row_bytes, nullptr, copy_four_bits};
}

}  // namespace weft
