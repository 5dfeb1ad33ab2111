// Shared code of the fuzz targets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "format/tensor.h"

namespace weft {

// Runs one input; each target defines it. Ends the program if a promise is broken.
void fuzz_input(const uint8_t* data, size_t size);

// Runs a parser. A weft::Error is an answer; any other exception ends the program, which libFuzzer reports. So does an
// error without a sentence.
template <typename Run>
void expect_answer_or_error(Run run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.sentence().empty()) std::abort();
  }
}

// Splits an input into the part before the first zero byte and the part after it.
inline std::pair<std::string_view, std::string_view> at_zero(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  return {input.substr(0, zero), input.substr(std::min(zero + 1, size))};
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
