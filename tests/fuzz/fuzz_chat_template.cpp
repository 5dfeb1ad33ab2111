// Chat templates. Input: Jinja source, a zero byte, what the user said.
#include "text/chat_template.h"

#include <algorithm>

#include "fuzz_support.h"

namespace {

const weft::Tokenizer& tokenizer() {
  static const weft::Tokenizer made = weft::Tokenizer::from_gguf({{"tokenizer.ggml.model", "gpt2"},
                                                                  {"tokenizer.ggml.pre", "gpt-2"},
                                                                  {"tokenizer.ggml.tokens", {"<s>", "</s>", "a", "b"}},
                                                                  {"tokenizer.ggml.merges", nlohmann::json::array()},
                                                                  {"tokenizer.ggml.token_type", {3, 3, 1, 1}},
                                                                  {"tokenizer.ggml.bos_token_id", 0},
                                                                  {"tokenizer.ggml.eos_token_id", 1}},
                                                                 "fuzz.gguf");
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  const std::string source(input.substr(0, zero));
  // A byte that only messages hold, unless the source spells it.
  const std::string marker = "\x01", said = marker + std::string(input.substr(std::min(zero + 1, size)));
  const bool source_has_marker = source.find_first_of("\\\x01") != std::string::npos;
  weft::expect_answer_or_error([&] {
    const weft::ChatTemplate chat(source, tokenizer(), "fuzz.gguf");
    const weft::Message messages[] = {{"system", marker}, {"user", said}, {"assistant", marker + "b"}, {"user", said}};
    for (const auto& piece : chat.render(messages, true)) {
      if (piece.text.empty()) std::abort();
      // Special tokens come from the template only: no byte of a message may be parsed.
      const bool marked = piece.text.find('\x01') != std::string::npos;
      if (marked && !source_has_marker && piece.special == weft::Tokenizer::Special::parse) std::abort();
    }
  });
  return 0;
}
