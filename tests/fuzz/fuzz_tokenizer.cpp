// Tokenizers of both formats. Input: JSON (a tokenizer.json if it has "model", else GGUF key-values), a zero byte, the
// text to encode.
#include "tokenizer/tokenizer.h"

#include "format/json.h"
#include "fuzz_support.h"

namespace {

weft::Tokenizer make(const weft::JsonValue& document) {
  if (!document.contains("model")) return weft::Tokenizer::from_gguf(document, "fuzz.gguf");
  const auto part = [&](const char* key) {
    const weft::JsonValue* found = document.find(key);
    return found ? *found : weft::JsonValue();
  };
  return weft::Tokenizer::from_hf(document, part("tokenizer_config"), part("generation_config"), "fuzz");
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  weft::JsonValue document;
  try {
    document = weft::parse_json(input.substr(0, zero), "fuzz.json");
  } catch (const weft::Error&) {
    return;
  }
  if (!document.is_object()) return;  // ModelFile's documents are objects
  weft::expect_answer_or_error([&] {
    const weft::Tokenizer tokenizer = make(document);
    const std::string_view text = input.substr(std::min(zero + 1, size));
    for (const auto special : {weft::Tokenizer::Special::plain, weft::Tokenizer::Special::parse}) {
      const auto ids = tokenizer.encode(text, special);
      for (const uint32_t id : ids) {
        if (id >= tokenizer.size()) std::abort();
        static_cast<void>(tokenizer.bytes(id));
        static_cast<void>(tokenizer.spelling(id));
      }
      static_cast<void>(tokenizer.decode(ids));
    }
  });
}
