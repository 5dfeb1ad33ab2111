#include "format/gguf.h"
#include "format/gguf_parts.h"
#include "format/importance.h"
#include "fuzz_support.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error([&] {
    const auto contents = weft::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    weft::decode_all(contents.tensors);
    const auto part = weft::gguf_part(contents, "fuzz.gguf");
    static_cast<void>(weft::gguf_part_path("fuzz-00001-of-00002.gguf", part, 0));
    static_cast<void>(contents.metadata.dump());
  });
  weft::expect_answer_or_error([&] { weft::parse_importance(std::as_bytes(std::span(data, size)), "fuzz.imatrix"); });
}
