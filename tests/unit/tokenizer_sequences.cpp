// Random sequences of normalizers and pre-tokenizers against Hugging Face's tokenizers
// (tests/tools/tokenizer_sequences.py).
#include <gtest/gtest.h>

#include <cstdlib>

#include "golden_files.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

using test::Json;

// The golden leaves out the map of every Precompiled: all have that of mixed.json's T5.
void fill_charsmaps(Json& component, const std::string& map) {
  if (component.is_object() && component.contains("precompiled_charsmap")) component["precompiled_charsmap"] = map;
  if (component.is_object() && component.contains("normalizers"))
    for (Json& item : component["normalizers"]) fill_charsmaps(item, map);
}

std::string committed_charsmap() {
  const Json mixed = test::read_json(test::golden_folder("tokenizer") / "mixed.json");
  for (const auto& item : mixed["tokenizers"].items()) {
    for (const Json& value : item.value()["tokenizer"]["normalizer"].flatten())
      if (value.is_string() && value.get<std::string>().size() > 1000) return value;
  }
  return {};
}

// WEFT_SEQUENCES: a larger golden, not committed.
TEST(TokenizerSequences, AgreeWithHuggingFace) {
  const char* larger = std::getenv("WEFT_SEQUENCES");
  const Json golden =
      test::read_json(larger ? larger : test::golden_folder("tokenizer") / std::filesystem::path("sequences.json"));
  const std::string map = committed_charsmap();
  ASSERT_FALSE(map.empty());
  ASSERT_GE(golden["cases"].size(), 150u);
  Json file = {{"model", golden["model"]}};
  int compared = 0, different = 0;
  for (const Json& item : golden["cases"]) {
    file["normalizer"] = item["normalizer"];
    file["pre_tokenizer"] = item["pre_tokenizer"];
    fill_charsmaps(file["normalizer"], map);
    const Tokenizer tokenizer = Tokenizer::from_hf(file, nullptr, nullptr, "sequence");
    for (size_t i = 0; i < item["lines"].size(); ++i) {
      const std::string line = golden["lines"][item["lines"][i].get<size_t>()];
      const std::vector<uint32_t> ids = tokenizer.encode(line, Special::plain), wanted = item["ids"][i];
      ++compared;
      if (ids == wanted) continue;
      if (++different > 20) continue;
      std::string given, expected;
      for (const uint32_t id : ids) given += "[" + tokenizer.spelling(id) + "]";
      for (const uint32_t id : wanted) expected += "[" + tokenizer.spelling(id) + "]";
      ADD_FAILURE() << item["normalizer"].dump() << "\n"
                    << item["pre_tokenizer"].dump() << "\n"
                    << Json(line).dump() << "\ngives " << given << "\nnot   " << expected;
    }
  }
  EXPECT_EQ(different, 0) << "of " << compared;
}

}  // namespace
}  // namespace weft
