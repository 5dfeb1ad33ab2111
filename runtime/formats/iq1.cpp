// GGUF's IQ1 types, their code book opened.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq1_s, DType::iq1_m};

}  // namespace

NumberFormat iq1_format() {
  return {"iq1", DType::iq1_s, kFrom, Format::q8, false, three_bit_row_bytes, nullptr, copy_three_bits};
}

}  // namespace weft
