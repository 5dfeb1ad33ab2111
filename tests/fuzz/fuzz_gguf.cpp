#include "format/gguf.h"
#include "fuzz_support.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error([&] {
    const auto contents = weft::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    weft::decode_all(contents.tensors);
    static_cast<void>(contents.metadata.dump());
  });
}
