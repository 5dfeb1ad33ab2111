#include "format/safetensors.h"
#include "fuzz_support.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error(
      [&] { weft::decode_all(weft::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz.safetensors")); });
}
