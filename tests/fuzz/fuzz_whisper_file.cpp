// whisper.cpp's ggml-*.bin, and the tokenizer and the settings that are made of it.
#include "format/whisper_file.h"

#include "fuzz_support.h"
#include "tokenizer/tokenizer.h"

void weft::fuzz_input(const uint8_t* data, size_t size) {
  weft::expect_answer_or_error([&] {
    const auto contents = weft::parse_whisper_file(std::as_bytes(std::span(data, size)), "fuzz.bin");
    weft::decode_all(contents.tensors);
    const auto tokenizer = weft::Tokenizer::from_hf(contents.tokenizer, {}, contents.generation_config, "fuzz.bin");
    for (const uint32_t id : tokenizer.encode("ab ((c", weft::Tokenizer::Special::parse))
      if (id >= tokenizer.size()) std::abort();
    for (const JsonValue& id : contents.generation_config["suppress_tokens"].items())
      if (id.get<uint32_t>() >= tokenizer.size()) std::abort();
  });
}
