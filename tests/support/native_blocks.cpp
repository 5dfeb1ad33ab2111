#include "support/native_blocks.h"

#include "format/quants.h"
#include "support/random_rows.h"

namespace weft::test {

std::vector<size_t> places_of_halves(DType type) {
  if (type == DType::q6_k) return {208};
  if (type == DType::mxfp4 || type == DType::iq1_m) return {};
  if (type == DType::q3_k) return {108};
  if (type == DType::q2_k) return {80, 82};
  if (type == DType::tq1_0) return {52};
  if (type == DType::tq2_0) return {64};
  if (has_list(type)) return {0};
  return type == DType::q4_0 || type == DType::q5_0 ? std::vector<size_t>{0} : std::vector<size_t>{0, 2};
}

std::string random_blocks(DType type, uint32_t rows, uint32_t cols, Random& random) {
  std::string blocks;
  for (uint32_t row = 0; row < rows; ++row) append_row(blocks, type, random.normals(cols));
  for (size_t at = 0; at < blocks.size(); at += block_bytes(type)) {
    if (type == DType::mxfp4) blocks[at] = static_cast<char>(at / block_bytes(type) % 255);
    for (const size_t place : places_of_halves(type)) {
      blocks[at + place] = static_cast<char>(random.below(256));
      blocks[at + place + 1] = static_cast<char>(random.below(2) * 128 + random.below(124));
    }
  }
  return blocks;
}

}  // namespace weft::test
