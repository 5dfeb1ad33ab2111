// Chat templates. Input: Jinja source, a zero byte, what the user said.
#include "template/chat_template.h"

#include <algorithm>

#include "fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  const std::string source(input.substr(0, zero));
  // A byte that only messages hold, unless the source spells it.
  const std::string marker = "\x01", said = marker + std::string(input.substr(std::min(zero + 1, size)));
  const bool source_has_marker = source.find_first_of("\\\x01") != std::string::npos;
  weft::expect_answer_or_error([&] {
    const weft::ChatTemplate chat(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, "fuzz.gguf");
    const weft::Message messages[] = {{"system", marker}, {"user", said}, {"assistant", marker + "b"}, {"user", said}};
    for (const auto& piece : chat.render(messages, true)) {
      if (piece.text.empty()) std::abort();
      // Special tokens come from the template only: no byte of a message may be parsed.
      const bool marked = piece.text.find('\x01') != std::string::npos;
      if (marked && !source_has_marker && piece.special == weft::Special::parse) std::abort();
    }
  });
  return 0;
}
