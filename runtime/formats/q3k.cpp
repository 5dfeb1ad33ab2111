// GGUF's Q3_K as it is.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q3_k};

}  // namespace

NumberFormat q3k_format() {
  return {"q3k", DType::q3_k, kFrom, Format::q8, false, three_bit_row_bytes, nullptr, copy_three_bits};
}

}  // namespace weft
