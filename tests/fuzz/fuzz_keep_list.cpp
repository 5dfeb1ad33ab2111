// Keep-lists. Input: terms, a zero byte, a file; '@' in the terms stands for the file.
#include <algorithm>
#include <functional>

#include "format/model_file.h"
#include "fuzz_support.h"
#include "keep/keep_list.h"
#include "memory_file.h"
#include "support/model_maker.h"

namespace {

const weft::Tokenizer& tokenizer() {
  static const weft::Tokenizer made = [] {
    const std::filesystem::path path = weft::test::scratch_folder() / "m.gguf";
    weft::LlamaShape shape;
    shape.width = 32;
    shape.layers = 1;
    shape.vocab = 300;
    weft::make_gguf(path, shape);
    return weft::Tokenizer::from_gguf(weft::open_model(path).metadata, "fuzz.gguf");
  }();
  return made;
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const auto [terms, content] = at_zero(data, size);
  const test::MemoryFile file(content);
  std::string list;
  for (const char c : terms) {
    if (c == '@')
      list += file.path();
    else
      list += c == '/' || c == '.' ? '_' : c;  // no file of the machine's
  }
  expect_answer_or_error([&] {
    const KeepList kept = make_keep_list(list, tokenizer());
    if (kept.ids.empty() || kept.ids.back() >= tokenizer().size()) std::abort();
    if (std::ranges::adjacent_find(kept.ids, std::greater_equal<>()) != kept.ids.end()) std::abort();
    // The written list reads back as the same ids.
    const std::filesystem::path path = test::scratch_folder() / "kept";
    write_keep_list(path, kept.ids, tokenizer());
    std::vector<uint32_t> read;  // with all control tokens, as the list may have "!control"
    for (const uint32_t id : make_keep_list(path.string() + ",!bytes", tokenizer()).ids)
      if (!tokenizer().is_control(id) || std::ranges::binary_search(kept.ids, id)) read.push_back(id);
    if (read != kept.ids) std::abort();
  });
}
