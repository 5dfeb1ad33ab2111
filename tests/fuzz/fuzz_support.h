// What the fuzz targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "format/tensor.h"

namespace weft {

// Runs a parser. A weft::Error is an answer; whatever else is thrown ends the program, which libFuzzer reports. So does
// an error without a sentence.
template <typename Run>
void expect_answer_or_error(Run run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.sentence().empty()) std::abort();
  }
}

// Touches every byte a reader vouches for.
inline void decode_all(const std::vector<TensorView>& tensors) {
  std::vector<float> row(256);
  for (const TensorView& tensor : tensors) {
    const uint64_t count = element_count(tensor.shape);
    for (uint64_t first = 0; first < count; first += row.size()) {
      to_float(tensor, first, std::span(row).first(std::min<uint64_t>(row.size(), count - first)));
    }
  }
}

}  // namespace weft
